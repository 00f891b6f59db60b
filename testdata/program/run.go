package program

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Run runs a command of this host to its end.
func Run(name string, args ...string) error {
	_, err := Output(name, args...)
	return err
}

// Output runs a command of this host, also one of its system directories, and
// returns what it wrote.
func Output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if cmd.Err != nil {
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				cmd.Path, cmd.Err = dir+name, nil
			}
		}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
