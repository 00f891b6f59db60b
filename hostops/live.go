package hostops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Live is the node this process runs on.
func Live(log *slog.Logger) *Node {
	return &Node{Root: "/", Kernel: liveKernel{}, Exec: liveExec{}, Now: time.Now, Log: orDiscard(log)}
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

type liveKernel struct{}

func (liveKernel) Release() string {
	return uname(func(u *unix.Utsname) []byte { return u.Release[:] })
}
func (liveKernel) Machine() string {
	return uname(func(u *unix.Utsname) []byte { return u.Machine[:] })
}

func uname(field func(*unix.Utsname) []byte) string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(field(&u))
}

// LoadModule uses finit_module and, where a security module judges the file by
// its label or the kernel lacks the call, leaves that decision visible: there
// is no second try with the label hidden.
func (liveKernel) LoadModule(file *os.File, params string) error {
	return unix.FinitModule(int(file.Fd()), params, 0)
}

func (liveKernel) UnloadModule(name string) error {
	return unix.DeleteModule(name, unix.O_NONBLOCK)
}

type liveExec struct{}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 1 << 20

func (liveExec) Run(ctx context.Context, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command given")
	}
	cmd := exec.CommandContext(ctx, lookPath(argv[0]), argv[1:]...)
	var out bounded
	cmd.Stdout, cmd.Stderr = &out, &out
	// A child that keeps the pipe open must not hold the step up for ever.
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return out.kept.Bytes(), fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return out.kept.Bytes(), nil
}

func (liveExec) Look(name string) bool {
	_, err := exec.LookPath(lookPath(name))
	return err == nil
}

// lookPath finds system commands also when PATH lacks the sbin directories, as
// it does in hooks and over ssh.
func lookPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p
		}
	}
	return name
}

// bounded keeps the first maxOutput bytes and reads on, so that the child never
// blocks on a full pipe.
// The buffer is not embedded: its ReadFrom would take everything.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
