package term

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// supervisedEnv marks the child of Supervise.
const supervisedEnv = "FITOUT_SCREEN_CHILD"

// Supervised says that this process draws under a parent that restores the
// terminal whatever becomes of it. What this process starts, a shell for
// example, is not told so.
func Supervised() bool {
	is := os.Getenv(supervisedEnv) != ""
	_ = os.Unsetenv(supervisedEnv)
	return is
}

// Supervise runs this very command line once more as a child and gives the
// terminal and the kernel's console level back when the child ends, also when
// it was killed. It returns the child's exit code.
func Supervise(in, out *os.File) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding the program's own file: %w", err)
	}
	modes := Save(in)
	level, _ := os.ReadFile(printkFile)

	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), supervisedEnv+"=1")
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGHUP}
	// The kernel sends the death signal when the forking thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP)
	defer signal.Stop(sigs)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the screen: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-sigs:
			if sig != unix.SIGTSTP {
				_ = cmd.Process.Signal(sig)
			}
		case err := <-ended:
			return afterChild(err, modes, NewWriter(out), string(level))
		}
	}
}

// goCrash is the exit code of a Go program that ended by a panic nobody caught.
const goCrash = 2

// afterChild cleans up after a child that did not do it itself.
func afterChild(err error, modes *Saved, out *Writer, level string) (int, error) {
	_ = modes.Restore()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, fmt.Errorf("waiting for the screen: %w", err)
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	killed := ok && ws.Signaled()
	if !killed && exit.ExitCode() != goCrash {
		return exit.ExitCode(), nil
	}
	(&Quiet{path: printkFile, before: level}).restoreChanged()
	if !out.Stuck() {
		_, _ = out.WriteString(leaveScreen)
	}
	if !killed {
		return exit.ExitCode(), nil
	}
	return 128 + int(ws.Signal()), nil
}

// restoreChanged puts the level back only where it differs.
func (q *Quiet) restoreChanged() {
	if now, err := os.ReadFile(q.path); err == nil && string(now) != q.before && q.before != "" {
		q.Restore()
	}
}
