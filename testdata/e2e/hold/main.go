// Command hold runs a program and stops it in front of chosen system calls, so
// that a test can pull the plug at a moment of its choice. The program under
// test knows nothing of it: the kernel asks this one, over a seccomp listener
// (seccomp_unotify(2)), before each call that changes something.
//
//	hold DIR POINTS PROGRAM ARG...
//
// What counts is what a runner of fitout and its children do. Each such call is
// a point; the points count up from 1. DIR gets
//
//	log       one line a point: number, step and state that the journal ends
//	          with, system call, file
//	at        the line of the point that is held now, and the runner's pid
//	go        (made by the test, deleted here) lets the held call happen
//
// POINTS are the numbers at which to hold, with commas; "-" for none.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == "--filtered":
		err = execFiltered(os.Args[2:])
	case len(os.Args) > 3:
		err = hold(os.Args[1], strings.Split(os.Args[2], ","), os.Args[3:])
	default:
		err = fmt.Errorf("use: hold DIR POINTS PROGRAM ARG...")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hold:", err)
		os.Exit(1)
	}
}

// hold starts the program behind the filter and answers the kernel until all
// that the program started has ended.
func hold(dir string, points, program []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	there := os.NewFile(uintptr(pair[1]), "there")
	cmd := exec.Command("/proc/self/exe", append([]string{"--filtered"}, program...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdin, os.Stdout, os.Stderr, []*os.File{there}
	if err := cmd.Start(); err != nil {
		return err
	}
	there.Close()
	listener, err := receive(pair[0])
	if err != nil {
		return fmt.Errorf("taking the listener over: %w", err)
	}
	l := &loop{listener: listener, dir: dir, wanted: func(n string) bool { return slices.Contains(points, n) }}
	go cmd.Wait()
	return l.serve()
}
