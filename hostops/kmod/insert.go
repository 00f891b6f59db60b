package kmod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// ChildVerb is the first argument of the hidden call `fitout CHILDVERB`, whose
// process makes one load call: a crash or a hang inside the kernel then takes
// that process and not the runner. Its main function hands over to [LoadChild].
const ChildVerb = "load-module-child"

// loadLimit is how long a module's start-up code may take before it is called
// hung. Drivers that train links or load firmware take tens of seconds.
const loadLimit = 120 * time.Second

// childReply is what the child says on its standard output.
type childReply struct {
	Errno unix.Errno `json:"errno"` // 0: loaded
	// Killed says that the kernel ended the thread that made the call.
	Killed bool `json:"killed,omitempty"`
}

// LoadChild is the child's whole life: it loads the module whose file is open
// as descriptor 3, with the parameters on standard input, and says how that
// went. It returns the exit code.
func LoadChild(n *hostops.Node) int {
	params, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading the parameters:", err)
		return 1
	}
	file := os.NewFile(3, "module")
	if file == nil {
		fmt.Fprintln(os.Stderr, "no module file was handed over")
		return 2
	}
	var reply childReply
	err = onOwnThread(func() error { return n.Kernel.LoadModule(file, string(params)) })
	if reply.Killed = errors.Is(err, errKilled); err != nil && !reply.Killed && !errors.As(err, &reply.Errno) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(reply); err != nil {
		return 1
	}
	return 0
}

// errKilled says that a call's thread is gone, and the call never came back.
var errKilled = errors.New("the kernel ended the calling thread")

// onOwnThread makes a call on a thread of its own. A crash in the kernel ends
// the thread that made the call, and none of the process's others: somebody has
// to look after it. It is never the first thread, whose end would empty the
// process's /proc/self.
func onOwnThread(call func() error) error {
	thread, done := make(chan int, 1), make(chan error, 1)
	held := make(chan struct{})
	own := func() {
		runtime.LockOSThread()
		close(held)
		thread <- unix.Gettid()
		done <- call()
	}
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			own()
			return
		}
		go own()
		<-held
		runtime.UnlockOSThread()
	}()
	tid := <-thread
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
		if !threadLives(tid) {
			select {
			case err := <-done: // it ended in order, just now
				return err
			default:
				return errKilled
			}
		}
	}
}

// threadLives says that a thread of this process has not ended. The first
// thread of a process that ended stays as a zombie.
func threadLives(tid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", tid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// stuck is a call that did not come back as calls do.
type stuck struct {
	code, text string
}

func (s *stuck) Error() string { return s.text }

// Hung says that the call is in the kernel still.
func (s *stuck) Hung() bool { return s.code == "init-hung" }

// FindingCode is the stable code of the reason.
func (s *stuck) FindingCode() string { return s.code }

// isStuck says that it is better to do nothing more: what such a call holds in the
// kernel, the next one would wait for.
func isStuck(err error) bool { s := (*stuck)(nil); return errors.As(err, &s) }

const startUp = "its start-up code"

func crashed(what, how string) error {
	return &stuck{"init-crashed", what + " crashed in the kernel (" + how + ")"}
}

// away makes a call that runs a module's code on a thread of its own, which is left
// behind when the call does not come back within the limit. Whoever is told to stop
// meanwhile waits all the same: the call cannot be taken back, and a slow one is
// not a hanging one. what says in an error what was called.
func away(limit time.Duration, what string, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- onOwnThread(call) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if errors.Is(err, errKilled) {
			return crashed(what, "the calling thread was killed")
		}
		return err
	case <-timer.C:
		return &stuck{"init-hung", fmt.Sprintf("%s has not come back after %s; the call cannot be broken off", what, limit)}
	}
}

// insert hands an open, uncompressed module file to the kernel. On the live
// node the call is made by a child process when this program can be its own
// child; else, and on a simulated node, by a thread of its own.
func insert(n *hostops.Node, file *os.File, params string, limit time.Duration) error {
	call := func() error { return n.Kernel.LoadModule(file, params) }
	if !n.Simulated() && isFitout() {
		call = func() error { return askChild(exec.Command("/proc/self/exe", ChildVerb), file, params) }
	}
	return away(limit, startUp, call)
}

// isFitout says that this process is the program itself, which knows the
// hidden verb, and not a test or another user of the package.
func isFitout() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && strings.HasSuffix(info.Path, "/cmd/fitout")
}

// askChild runs the child's command and reads its answer. A child that was
// killed, or a thread of it, died of a crash of the module's code: nobody else
// signals it.
func askChild(cmd *exec.Cmd, file *os.File, params string) error {
	cmd.Stdin = strings.NewReader(params)
	cmd.ExtraFiles = []*os.File{file}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	// A signal for the terminal's foreground must not reach into the load.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return crashed(startUp, "the loading process was killed by "+ws.Signal().String())
		}
	}
	if err != nil {
		return fmt.Errorf("running the loading process: %w (%s)", err, strings.TrimSpace(complaint.String()))
	}
	var reply childReply
	if err := json.Unmarshal(out, &reply); err != nil {
		return fmt.Errorf("reading the loading process's answer: %w", err)
	}
	if reply.Killed {
		return crashed(startUp, "the loading thread was killed")
	}
	if reply.Errno != 0 {
		return reply.Errno
	}
	return nil
}
