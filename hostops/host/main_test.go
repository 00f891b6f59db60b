package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/rancher/yip/pkg/console"
	"github.com/rancher/yip/pkg/executor"
	"github.com/sirupsen/logrus"
	"github.com/twpayne/go-vfs/v4"

	"fitout/hostops"
)

// TestMain lets the test program play two more parts: the program that hooks
// call ("hook STAGE …"), and the OS's own stage executor inside a chroot.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hook" {
		if err := Hook(context.Background(), hostops.Live(nil), os.Args[2:], nil); err != nil {
			fmt.Fprintln(os.Stderr, "fitout:", err)
			os.Exit(6)
		}
		os.Exit(0)
	}
	if root := os.Getenv("FITOUT_TEST_CHROOT"); root != "" {
		os.Exit(runStage(root, os.Getenv("FITOUT_TEST_STAGE")))
	}
	os.Exit(m.Run())
}

// runStage runs a stage as elemental does: chroot, then the executor over
// /oem. Exit 0 says that no step failed.
func runStage(root, stage string) int {
	if err := syscall.Chroot(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	if err := os.Chdir("/"); err != nil {
		return 99
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	if os.Getenv("FITOUT_TEST_VERBOSE") != "" {
		log.SetOutput(os.Stderr)
	}
	e := executor.NewExecutor(executor.WithLogger(log))
	if err := e.Run(stage, vfs.OSFS, console.NewStandardConsole(console.WithLogger(log)), "/oem"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
