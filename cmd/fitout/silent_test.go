package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"fitout/testdata/nodes"
)

// queries are what asks a terminal for an answer: device attributes, status and
// cursor, window reports, modes, keyboard protocol, colours, DECRQSS and
// XTGETTCAP (ECMA-48; xterm's ctlseqs).
var queries = regexp.MustCompile(`\x1b\[[>=?]?[0-9;]*(c|n|t|u|x|\$p)|\x1b\][0-9;]*;\?|\x1bP[$+]q|\x1bZ|\x05`)

// A terminal that answers nothing holds no verb up: none asks it anything, and
// each ends without a key. The screens are in the test of their own package.
func TestNoVerbAsksTheTerminal(t *testing.T) {
	require.Regexp(t, queries, "\x1b[6n")
	require.Regexp(t, queries, "\x1b]11;?\x07")
	require.NotRegexp(t, queries, "\x1b[1mbold\x1b[0m \x1b[2J\x1b[?25h")
	root := nodes.Build(t, e100Card, nodes.Disk)
	seen := 0
	for _, args := range verbs((&app{}).command(), nil) {
		seen++
		out := onSilentTerminal(t, root, args...)
		require.NotRegexp(t, queries, out, "%q", args)
		require.NotEmpty(t, out, "%q", args)
	}
	require.Greater(t, seen, 30)
}

// verbs are all verbs that end by themselves, each with a word for every
// argument it wants.
func verbs(c *cobra.Command, above []string) [][]string {
	var all [][]string
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "wizard" {
			continue
		}
		words := strings.Fields(sub.Use)
		args := append(append([]string{}, above...), words[0])
		all = append(all, verbs(sub, args)...)
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "[") {
				args = append(args, "none")
			}
		}
		all = append(all, args)
	}
	return all
}

// onSilentTerminal runs the program on a terminal that says nothing, and gives
// back what it wrote.
func onSilentTerminal(t *testing.T, root string, args ...string) string {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"--root", root}, args...)...)
	cmd.Env = []string{"FITOUT_TEST_PROGRAM=1", "TERM=xterm-256color", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "HOME=/"}
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with EIO when nobody has the terminal open
	_ = cmd.Wait()
	require.NoError(t, ctx.Err(), "%q waits for a key", args)
	return out.String()
}
