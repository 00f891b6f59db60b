package term

import (
	"io"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Shell is a shell in the foreground of a terminal, for tea.Exec. The terminal
// is handed to it as a job of its own, so that Ctrl-C and Ctrl-Z in it reach it
// alone, and taken back when it ends.
type Shell struct {
	Path string
	TTY  *os.File
	Out  *os.File
	// Before is printed first.
	Before string
	// Modes of the terminal as they were found.
	Modes *Saved
}

// SetStdin, SetStdout and SetStderr keep the shell on its own terminal.
func (s *Shell) SetStdin(io.Reader)  {}
func (s *Shell) SetStdout(io.Writer) {}
func (s *Shell) SetStderr(io.Writer) {}

// Run runs the shell until it exits; how it exits is its own affair.
func (s *Shell) Run() error {
	_ = s.Modes.Restore()
	if _, err := s.Out.WriteString(s.Before); err != nil {
		return err
	}
	cmd := exec.Command(s.Path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.TTY, s.Out, s.Out
	if pgrp, err := unix.IoctlGetInt(int(s.TTY.Fd()), unix.TIOCGPGRP); err == nil && pgrp == unix.Getpgrp() {
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Foreground: true, Ctty: int(s.TTY.Fd())}
		// A background job that sets the terminal's owner is stopped by SIGTTOU.
		signal.Ignore(unix.SIGTTOU)
		defer signal.Reset(unix.SIGTTOU)
		defer func() { _ = unix.IoctlSetPointerInt(int(s.TTY.Fd()), unix.TIOCSPGRP, pgrp) }()
	}
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); exited {
		return nil
	}
	return err
}

// ShellPath is the operator's shell, else the system's.
func ShellPath(env func(string) string) string {
	if sh := env("SHELL"); sh != "" {
		if _, err := os.Stat(sh); err == nil {
			return sh
		}
	}
	return "/bin/sh"
}
