package term

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Session holds a terminal while something is drawn on it, and gives it back on
// every way out: the end, a signal, a panic in any goroutine, a hang-up.
type Session struct {
	In  *os.File
	Out *Writer
	// Notes takes stacks of panics and of SIGQUIT; nil: standard error, after
	// the terminal was given back.
	Notes func(text string)

	saved  *Saved
	quiet  *Quiet
	cancel context.CancelFunc
	sigs   chan os.Signal
	done   chan struct{}

	mu    sync.Mutex
	cause Cause
	stack string
}

// Cause says why a session was ended from outside.
type Cause struct {
	// Signal that ended it, 0 for none. A hang-up of the line is SIGHUP.
	Signal unix.Signal
	// Panic is the text of a panic, "" for none.
	Panic string
}

// Exit is the exit code of a process that ended for this cause, -1 for none.
func (c Cause) Exit() int {
	switch {
	case c.Signal != 0:
		return 128 + int(c.Signal)
	case c.Panic != "":
		return 1
	}
	return -1
}

// Begin takes the terminal. The context ends when the session is ended from
// outside. interrupt is called for SIGINT, which means what Ctrl-C means.
func Begin(ctx context.Context, in, out *os.File, interrupt func()) (*Session, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{
		In: in, Out: NewWriter(out), saved: Save(in), quiet: Hush(Name(out)), cancel: cancel,
		sigs: make(chan os.Signal, 8), done: make(chan struct{}),
	}
	// SIGTSTP is caught to do nothing: stopped, the program would leave the
	// terminal raw, and on a console login nothing could continue it.
	signal.Notify(s.sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP)
	go s.watch(interrupt)
	return s, ctx
}

func (s *Session) watch(interrupt func()) {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.sigs:
			switch sig {
			case unix.SIGTSTP:
			case unix.SIGINT:
				if interrupt != nil {
					interrupt()
				}
			case unix.SIGQUIT:
				buf := make([]byte, 1<<20)
				s.end(Cause{Signal: unix.SIGQUIT}, string(buf[:runtime.Stack(buf, true)]))
			default:
				s.end(Cause{Signal: sig.(unix.Signal)}, "")
			}
		}
	}
}

// Hangup ends the session because the terminal is gone.
func (s *Session) Hangup() { s.end(Cause{Signal: unix.SIGHUP}, "") }

// lastFrame is how long a terminal may take for the last frame once the session
// was ended from outside.
const lastFrame = time.Second

// end keeps the first cause and lets nothing wait for the terminal any more.
func (s *Session) end(c Cause, stack string) {
	s.mu.Lock()
	if s.cause == (Cause{}) {
		s.cause, s.stack = c, stack
	}
	s.mu.Unlock()
	if s.Out.Stuck() {
		s.Out.Abandon()
	}
	time.AfterFunc(lastFrame, s.Out.Abandon)
	s.cancel()
}

// Go runs f in a goroutine; a panic in it ends the session in order instead of
// leaving the terminal raw.
func (s *Session) Go(f func()) {
	go func() {
		defer s.Recover()
		f()
	}()
}

// Recover is for defer in goroutines of the program: it turns a panic into an
// end of the session.
func (s *Session) Recover() {
	if r := recover(); r != nil {
		s.end(Cause{Panic: fmt.Sprint(r)}, string(debug.Stack()))
	}
}

// End gives the terminal back and returns why the session was ended from
// outside, the zero Cause when it was not. It never waits.
func (s *Session) End() Cause {
	signal.Stop(s.sigs)
	close(s.done)
	s.cancel()
	s.quiet.Restore()
	_ = s.saved.Restore()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stack != "" {
		s.note(s.stack)
	}
	return s.cause
}

// note writes a stack where it does no harm.
func (s *Session) note(stack string) {
	if s.Notes != nil {
		s.Notes(stack)
		return
	}
	fmt.Fprintln(os.Stderr, stack)
}

// Modes are the modes as they were found.
func (s *Session) Modes() *Saved { return s.saved }
