package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"fitout/testdata/vm"
)

// leave is the key that cuts the machine off: Ctrl-].
const leave = 0x1d

func isTerminal() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// attach puts the machine's console on this terminal until the machine ends or
// the person leaves.
func attach(m *vm.Machine, exec string) error {
	if err := m.Console.WaitFor("machine#", time.Minute); err != nil {
		return err
	}
	say("Ctrl-] cuts the machine off, \"poweroff\" ends it in order")
	state, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	defer func() {
		term.Restore(int(os.Stdin.Fd()), state)
		// What a wizard that was cut off may have left: alternate screen, hidden cursor.
		fmt.Print("\x1b[?1049l\x1b[?25h\x1b[0m\r\n")
	}()
	m.Console.Mirror(os.Stdout)
	first := vm.Enter
	if exec != "" {
		first = exec + vm.Enter
	}
	if err := m.Console.Type(first); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		buf := make([]byte, 1024)
		for {
			n, err := os.Stdin.Read(buf)
			if err != nil || bytes.IndexByte(buf[:n], leave) >= 0 || m.Console.Type(string(buf[:n])) != nil {
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		m.Wait()
		close(ended)
	}()
	select {
	case <-left:
	case <-ended:
	}
	return nil
}
