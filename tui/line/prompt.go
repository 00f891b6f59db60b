// Package line asks the wizard's questions line by line, where no screen can be
// drawn: TERM=dumb, a slow serial line, a screen reader, a logger. It appends
// only, never moves the cursor, has one reader for the whole session, and takes
// the end of input for an abort, never for an answer.
package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fitout/tui/look"
	"fitout/tui/term"
)

// errAbort ends the session: the end of input, q, or Ctrl-C.
var errAbort = errors.New("stopped: nothing was changed on the node")

// prompter is the one reader and writer of a session.
type prompter struct {
	in, out *os.File
	ctx     context.Context
	saved   *term.Saved
	asks    chan struct{}
	lines   chan string
	rest    []byte // read beyond a line's end; only where the input is no terminal
	stop    chan os.Signal
}

func newPrompter(ctx context.Context, in, out *os.File) *prompter {
	p := &prompter{in: in, out: out, ctx: ctx, saved: term.Save(in), asks: make(chan struct{}), lines: make(chan string), stop: make(chan os.Signal, 4)}
	signal.Notify(p.stop, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go p.read()
	return p
}

// close gives the terminal its modes back.
func (p *prompter) close() {
	signal.Stop(p.stop)
	close(p.asks)
	_ = p.saved.Restore()
}

// say prints lines, cut nowhere.
func (p *prompter) say(lines ...string) {
	for _, l := range lines {
		fmt.Fprintln(p.out, look.ASCII(look.Line(l)))
	}
}

// read reads one line for each request, so that what is typed ahead stays with
// the kernel, where it can be thrown away.
func (p *prompter) read() {
	buf := make([]byte, 4096)
	for range p.asks {
		for !bytes.ContainsRune(p.rest, '\n') {
			n, err := unix.Read(int(p.in.Fd()), buf)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
				continue
			}
			if n <= 0 || err != nil {
				close(p.lines)
				return
			}
			p.rest = append(p.rest, buf[:n]...)
		}
		line, rest, _ := bytes.Cut(p.rest, []byte{'\n'})
		text := strings.TrimSpace(string(line))
		p.rest = append([]byte(nil), rest...)
		p.lines <- text
	}
}

// line waits for one line.
func (p *prompter) line() (string, error) {
	select {
	case p.asks <- struct{}{}:
	case <-p.ctx.Done():
		return "", errAbort
	case <-p.stop:
		return "", errAbort
	}
	select {
	case text, ok := <-p.lines:
		if !ok {
			return "", errAbort
		}
		return strings.ReplaceAll(look.Clean(text), "\n", " "), nil
	case <-p.ctx.Done():
		return "", errAbort
	case <-p.stop:
		return "", errAbort
	}
}

// ask prints a question and returns the answer; an empty one is the default.
// q stops the session.
func (p *prompter) ask(question, otherwise string) (string, error) {
	if otherwise != "" {
		question += " [" + otherwise + "]"
	}
	fmt.Fprint(p.out, look.ASCII(look.Line(question))+": ")
	text, err := p.line()
	switch {
	case err != nil:
		fmt.Fprintln(p.out)
		return "", err
	case text == "q":
		return "", errAbort
	case text == "":
		return otherwise, nil
	}
	return text, nil
}

// The pauses around a typed word: it cannot come sooner after the question than
// anybody reads and types, and nothing may follow it.
const (
	calm   = 250 * time.Millisecond
	settle = 300 * time.Millisecond
)

// word asks for a typed word. What was typed ahead does not count, and neither
// does a word that is part of a paste.
func (p *prompter) word(does, word string) (bool, error) {
	term.Flush(p.in)
	asked := time.Now()
	text, err := p.ask("To "+does+", type the word "+word+"; anything else goes back", "")
	if err != nil || text != word {
		return false, err
	}
	if !term.IsTerminal(p.in) {
		return true, nil
	}
	hasty := time.Since(asked) < calm
	fds := []unix.PollFd{{Fd: int32(p.in.Fd()), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, int(settle.Milliseconds())); n > 0 || hasty {
		term.Flush(p.in)
		p.say("More text came with it, as in a paste: it does not count.")
		return false, nil
	}
	return true, nil
}

// secret asks without echo.
func (p *prompter) secret(question string) ([]byte, error) {
	if t, err := unix.IoctlGetTermios(int(p.in.Fd()), unix.TCGETS); err == nil {
		quiet := *t
		quiet.Lflag &^= unix.ECHO
		quiet.Lflag |= unix.ICANON | unix.ISIG
		if err := unix.IoctlSetTermios(int(p.in.Fd()), unix.TCSETS, &quiet); err != nil {
			return nil, fmt.Errorf("turning the echo off for the password: %w", err)
		}
		defer func() {
			_ = unix.IoctlSetTermios(int(p.in.Fd()), unix.TCSETS, t)
			fmt.Fprintln(p.out)
		}()
	}
	fmt.Fprint(p.out, question+" (not shown): ")
	text, err := p.line()
	return []byte(text), err
}
