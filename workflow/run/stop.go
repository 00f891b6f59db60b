package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// cancelFile is the file in a run's directory that asks its runner to stop and
// undo. It names that very runner, so a request can neither be lost while the
// runner starts nor reach a later one.
func cancelFile(dir string, o Owner) string {
	return path.Join(dir, fmt.Sprintf("cancel-%d-%d", o.PID, o.Since.UnixNano()))
}

// pollCancel is how often the runner looks for it.
const pollCancel = 100 * time.Millisecond

// Cancel asks the runner of a run to stop: to finish or give up the step it is
// at, and to undo. It does not wait.
func Cancel(n *hostops.Node, stateDir, id string) error {
	o, held := Holder(n)
	if !held || o.Run != id {
		return fmt.Errorf("run %s is not in progress: there is nothing to cancel", id)
	}
	if err := n.WriteFile(cancelFile(Dir(stateDir, id), o), nil, 0o600); err != nil {
		return fmt.Errorf("asking run %s to stop: %w", id, err)
	}
	return nil
}

// stopper collects the reasons to stop: signals, the cancel file, the run's
// own time limit, the caller's context.
type stopper struct {
	asked chan struct{} // closed when the run shall stop

	mu      sync.Mutex
	reason  string
	timeout bool
	again   int // asked again after that

	quit chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// watch starts a stopper that looks for the file cancel. limit 0 means none. SIGHUP is ignored from here on,
// for the runner and for what it starts: the terminal it came from may go.
func watch(ctx context.Context, n *hostops.Node, cancel string, limit time.Duration) *stopper {
	s := &stopper{asked: make(chan struct{}), quit: make(chan struct{})}
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	s.done.Go(func() {
		defer signal.Stop(signals)
		tick := time.NewTicker(pollCancel)
		defer tick.Stop()
		var late <-chan time.Time
		if limit > 0 {
			t := time.NewTimer(limit)
			defer t.Stop()
			late = t.C
		}
		ended := ctx.Done()
		for {
			select {
			case <-s.quit:
				return
			case sig := <-signals:
				s.ask("it got "+unix.SignalName(sig.(unix.Signal)), false)
			case <-late:
				s.ask(fmt.Sprintf("it took longer than its limit of %s", limit), true)
			case <-ended:
				ended = nil
				s.ask("it was told to", errors.Is(ctx.Err(), context.DeadlineExceeded))
			case <-tick.C:
				if n.Exists(cancel) {
					_ = n.Remove(cancel)
					s.ask("a person cancelled it", false)
				}
			}
		}
	})
	return s
}

func (s *stopper) ask(why string, timeout bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != "" {
		s.again++
		return
	}
	s.reason, s.timeout = why, timeout
	close(s.asked)
}

// why is the reason to stop, "" for none yet; timeout says that it was the
// run's own limit.
func (s *stopper) why() (reason string, timeout bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.timeout
}

// end stops watching; also when it was stopped before.
func (s *stopper) end() {
	s.once.Do(func() { close(s.quit) })
	s.done.Wait()
}
