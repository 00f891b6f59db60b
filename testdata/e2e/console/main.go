// Console runs a command on a pseudo terminal of its own, 80 by 24: a second
// console of a machine that has one serial port for people. What it shows is
// written to a file whenever it changes; keys are read from a named pipe.
//
//	console KEYS SCREEN COMMAND [ARGUMENT…]
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

const columns, rows = 80, 24

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: console KEYS SCREEN COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], exec.Command(os.Args[3], os.Args[4:]...)); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(keys, screen string, cmd *exec.Cmd) error {
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return err
	}
	// Opened for writing as well, so that it does not end with its first writer.
	pipe, err := os.OpenFile(keys, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	go func() { _, _ = terminal.ReadFrom(pipe) }()
	shown := vt10x.New(vt10x.WithSize(columns, rows))
	go func() {
		for last := ""; ; time.Sleep(200 * time.Millisecond) {
			if text := picture(shown); text != last {
				_ = os.WriteFile(screen+".new", []byte(text), 0o644)
				_ = os.Rename(screen+".new", screen)
				last = text
			}
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := terminal.Read(buf)
		_, _ = shown.Write(buf[:n])
		if err != nil {
			break // the command has ended
		}
	}
	err = cmd.Wait()
	text := fmt.Sprintf("%s\nexit %d\n", picture(shown), cmd.ProcessState.ExitCode())
	if werr := os.WriteFile(screen, []byte(text), 0o644); werr != nil {
		return werr
	}
	return err
}

// picture is what the terminal shows, as text.
func picture(t vt10x.Terminal) string {
	t.Lock()
	defer t.Unlock()
	var b strings.Builder
	for y := range rows {
		line := ""
		for x := range columns {
			r := t.Cell(x, y).Char
			if r == 0 {
				r = ' '
			}
			line += string(r)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
