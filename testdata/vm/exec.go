package vm

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// command prepares a command with the system directories in its path.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if cmd.Err != nil {
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				cmd.Path, cmd.Err = dir+name, nil
			}
		}
	}
	return cmd
}

// run runs a command to its end.
func run(dir, name string, args ...string) error {
	cmd := command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Output runs a command of this host, also one of its system directories, and
// returns what it wrote.
func Output(name string, args ...string) (string, error) {
	cmd := command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// copyFile copies a file's content, following links.
func copyFile(from, to string, perm os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
