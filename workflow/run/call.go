package run

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/workflow/journal"
)

// errHung is a call that came back neither by itself nor when it was told to, or
// that was given up by the action that made it.
var errHung = errors.New("it does not come back")

// leftInKernel is the error of an action that gave a call up itself; Hung says
// that the call is inside the kernel still.
type leftInKernel interface{ Hung() bool }

// givenUp makes such an error one of errHung.
func givenUp(err error) error {
	if left := (leftInKernel)(nil); errors.As(err, &left) && left.Hung() {
		return fmt.Errorf("%w: %w", errHung, err)
	}
	return err
}

// panicError is a bug in an action's code.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("a bug in fitout: %v", e.value) }

// timeoutError is a call that gave up at its limit.
type timeoutError struct {
	limit time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("gave up after its limit of %s: %v", e.limit, e.err)
}
func (e *timeoutError) Unwrap() error { return e.err }

// call runs one method of an action, for at most limit. Then, or when stop is
// closed, its context ends; if it has not come back grace after the limit, it is
// left behind and the answer is errHung: a call stuck in the kernel cannot be
// ended by anybody. An action that knows its call's limit has said so before, and
// by name. A nil stop never closes.
func call(ctx context.Context, limit, grace time.Duration, stop <-chan struct{}, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := error(&panicError{value: "the action ended its goroutine"})
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{v, debug.Stack()}
			}
			result <- err
		}()
		err = fn(ctx)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	var hopeless <-chan time.Time
	for {
		select {
		case err := <-result:
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return &timeoutError{limit, err}
			}
			return err
		case <-stop:
			stop = nil
			cancel()
		case <-late.C: // the context's deadline, too
			hopeless = time.After(grace)
		case <-hopeless:
			return errHung
		}
	}
}

// sink writes what an action says into the journal, until it is shut: an
// action that was left behind says nothing any more.
type sink struct {
	w    *journal.Writer
	step string
	n    int
	shut atomic.Bool
}

// Line implements hostops.Sink.
func (s *sink) Line(text string) {
	if s.shut.Load() {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		_ = s.w.Append(journal.Event{Event: journal.Log, Step: s.step, N: s.n, Message: strings.TrimRight(line, "\r")})
	}
}

// Progress implements hostops.Sink.
func (s *sink) Progress(done, total int64) {
	if !s.shut.Load() {
		_ = s.w.Append(journal.Event{Event: journal.Progress, Step: s.step, N: s.n, Done: done, Total: total})
	}
}

// moduleCalls are the system calls that run a module's code: of loading, of
// unloading, of a word to sysfs.
var moduleCalls = []string{strconv.Itoa(unix.SYS_FINIT_MODULE), strconv.Itoa(unix.SYS_DELETE_MODULE), strconv.Itoa(unix.SYS_WRITE)}

// stuck describes, a few lines each, the threads of this process and of its
// children that may be the stuck one: those that wait in the kernel
// uninterruptibly (state D), or in any other way in a call that runs a module's
// code, and those that run (R) and have been in the kernel for long: that code may
// go round in a loop.
func stuck(n *hostops.Node) []string {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	threads := n.Glob("/proc/self/task/*")
	for _, pid := range children(n) {
		threads = append(threads, n.Glob("/proc/"+pid+"/task/*")...)
	}
	var out []string
	for _, dir := range threads {
		data, err := n.ReadString(dir + "/stat")
		open, end := strings.IndexByte(data, '('), strings.LastIndexByte(data, ')')
		if err != nil || open < 0 || end < open || path.Base(dir) == strconv.Itoa(unix.Gettid()) {
			continue
		}
		fields := strings.Fields(data[end+1:]) // from the third of proc(5) on
		if len(fields) < 13 {
			continue
		}
		ticks, _ := strconv.Atoi(fields[12]) // stime
		seconds := ticks / 100               // USER_HZ
		call, _ := n.ReadString(dir + "/syscall")
		call, _, _ = strings.Cut(call, " ")
		who := fmt.Sprintf("thread %s (%s) ", path.Base(dir), data[open+1:end])
		switch {
		case fields[0] == "R" && seconds > 0:
			out = append(out, fmt.Sprintf("%sruns, and was in the kernel for %d s so far", who, seconds))
		case fields[0] == "D" || slices.Contains(moduleCalls, call):
			where, _ := n.ReadString(dir + "/wchan")
			out = append(out, who+"waits in the kernel: "+where)
		default:
			continue
		}
		if stack, err := n.ReadString(dir + "/stack"); err == nil && stack != "" {
			lines := strings.Split(stack, "\n")
			out = append(out, lines[:min(len(lines), 8)]...)
		}
	}
	return out
}

// children are the ids of this process's child processes.
func children(n *hostops.Node) []string {
	var out []string
	for _, f := range n.Glob("/proc/self/task/*/children") {
		list, _ := n.ReadString(f)
		out = append(out, strings.Fields(list)...)
	}
	return out
}
