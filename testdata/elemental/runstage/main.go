// Command runstage plays elemental's run-stage in a chroot.
//
//	runstage [-form v1|v2] [-strict] ROOT STAGE
package main

import (
	"flag"
	"fmt"
	"os"
	"syscall"

	"fitout/testdata/elemental/stages"
)

func main() {
	form := flag.String("form", "v2", "toolkit: v1 or v2")
	strict := flag.Bool("strict", false, "a failing step fails the stage")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: runstage [-form v1|v2] [-strict] ROOT STAGE")
		os.Exit(2)
	}
	if err := syscall.Chroot(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "chroot:", err)
		os.Exit(99)
	}
	if err := os.Chdir("/"); err != nil {
		os.Exit(99)
	}
	err := stages.Run(flag.Arg(1), *form)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Without strict the toolkit drops the error and goes on.
	if err != nil && *strict {
		os.Exit(1)
	}
}
