package vm

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// agent is the host's end of guest/agent, whose protocol is described there.
type agent struct {
	// hello gets a boot id each time that the agent starts.
	hello chan string

	conn   net.Conn
	mu     sync.Mutex // one command at a time
	number int
	lines  chan string
}

func newAgent(conn net.Conn) *agent {
	a := &agent{hello: make(chan string, 16), conn: conn, lines: make(chan string, 1024)}
	go a.read()
	return a
}

func (a *agent) read() {
	defer close(a.lines)
	r := bufio.NewReader(a.conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		// Firmware and bootloader may write to the port before the agent does.
		if _, id, ok := strings.Cut(line, "@hello "); ok {
			a.hello <- id
			continue
		}
		a.lines <- line
	}
}

// run runs one command and waits for its answer.
func (a *agent) run(cmd string, limit time.Duration, gone <-chan struct{}) (out string, code int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	line := fmt.Sprintf("%d %s\n", a.number, base64.StdEncoding.EncodeToString([]byte(cmd)))
	if _, err := io.WriteString(a.conn, line); err != nil {
		return "", -1, err
	}
	timeout := time.After(limit)
	head, end := fmt.Sprintf("@%d ", a.number), fmt.Sprintf("@%d end", a.number)
	var body strings.Builder
	begun := false
	for {
		select {
		case <-timeout:
			return "", -1, fmt.Errorf("no answer after %s", limit)
		case <-gone:
			return "", -1, errors.New("the machine is gone")
		case line, ok := <-a.lines:
			switch {
			case !ok:
				return "", -1, errors.New("the machine is gone")
			case line == end:
				data, err := base64.StdEncoding.DecodeString(body.String())
				return string(data), code, err
			case strings.HasPrefix(line, head):
				begun = true
				if code, err = strconv.Atoi(strings.TrimPrefix(line, head)); err != nil {
					return "", -1, fmt.Errorf("reading the answer %q: %w", line, err)
				}
			case begun:
				body.WriteString(line)
			}
		}
	}
}

// forget drops what came in before the machine was taken back in time.
func (a *agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		select {
		case <-a.lines:
		case <-a.hello:
		default:
			return
		}
	}
}
