// Command toolkit is a strict stand-in for elemental (toolkit v2.3) on the
// running system: "upgrade" with the loop-device snapshotter, "run-stage" and
// "version". What it does with images, binds, hooks and failures is what the
// real program was seen to do; the stages are run by the real executor.
//
//	elemental upgrade --system file://IMAGE [--logfile FILE] [--strict]
//	elemental run-stage STAGE
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"fitout/testdata/elemental/stages"
)

func main() {
	if len(os.Args) < 2 {
		fail(1, "no command")
	}
	switch os.Args[1] {
	case "version":
		fmt.Println("2.3.2")
	case "run-stage":
		if len(os.Args) != 3 {
			fail(1, "run-stage takes one stage")
		}
		_ = stages.Run(os.Args[2], "v2") // not strict: the error is dropped
	case "chroot-stage": // the toolkit's own second half, below the new root
		if err := syscall.Chroot(os.Args[2]); err != nil {
			fail(99, "chroot: %v", err)
		}
		if err := os.Chdir("/"); err != nil {
			fail(99, "%v", err)
		}
		if err := stages.Run(os.Args[3], "v2"); err != nil {
			fail(1, "%v", err)
		}
	case "upgrade":
		u, err := parse(os.Args[2:])
		if err != nil {
			fail(1, "%v", err)
		}
		if err := u.run(); err != nil {
			u.log("ERROR: " + err.Error())
			fail(1, "%v", err)
		}
	default:
		fail(1, "unknown command %q", os.Args[1])
	}
}

// parse reads the flags of upgrade; one that the toolkit does not have is an
// error.
func parse(args []string) (*upgrade, error) {
	u := &upgrade{strict: strictByEnvironment()}
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		take := func() (string, error) {
			if ok {
				return value, nil
			}
			if i++; i >= len(args) {
				return "", fmt.Errorf("flag %s needs a value", name)
			}
			return args[i], nil
		}
		var err error
		switch name {
		case "--system":
			u.system, err = take()
		case "--logfile":
			u.logfile, err = take()
		case "--strict":
			u.strict = true
		default:
			err = fmt.Errorf("unknown flag: %s", name)
		}
		if err != nil {
			return nil, err
		}
	}
	file, ok := strings.CutPrefix(u.system, "file://")
	if !ok {
		return nil, fmt.Errorf("this stand-in reads file:// sources only, not %q", u.system)
	}
	u.source = file
	return u, nil
}

func fail(code int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(code)
}
