package actions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"fitout/catalog/module"
	"fitout/hostops"
)

// File is one file to lay out: From in the store, To on the node.
type File struct{ From, To string }

// Stage copies module and firmware files from the store to where they are used,
// modules uncompressed, so that the kernel is handed plain ELF whatever the
// image had.
type Stage struct {
	Title string
	// Dir is what Undo removes: everything this action made lies below it.
	Dir     string
	Modules []File
	Other   []File
	// Existed lists targets that were there before, with their saved copies.
	Existed []string
}

// Kind implements hostops.Action.
func (*Stage) Kind() string { return "stage-files" }

// Describe implements hostops.Action.
func (s *Stage) Describe() hostops.Description {
	d := hostops.Description{Title: s.Title, Into: s.Dir}
	for _, f := range s.all() {
		d.Text = append(d.Text, "write "+f.To)
	}
	d.Undo = []string{"remove these files, and the directories they leave empty"}
	return d
}

func (s *Stage) all() []File { return slices.Concat(s.Modules, s.Other) }

// Prepare implements hostops.Action.
func (s *Stage) Prepare(_ context.Context, n *hostops.Node) error {
	s.Existed = nil
	for _, f := range s.all() {
		if n.Exists(f.To) {
			s.Existed = append(s.Existed, f.To)
		}
	}
	return nil
}

// Done implements hostops.Action: every file is there with the store's content.
func (s *Stage) Done(_ context.Context, n *hostops.Node) (bool, error) {
	for _, f := range s.all() {
		want, err := content(n, f.From, slices.Contains(s.Modules, f))
		if err != nil {
			return false, err
		}
		got, err := n.ReadFile(f.To)
		if err != nil || !bytes.Equal(got, want) {
			return false, nil
		}
	}
	return true, nil
}

// Do implements hostops.Action.
func (s *Stage) Do(ctx context.Context, n *hostops.Node, out hostops.Sink) error {
	for i, f := range s.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := content(n, f.From, i < len(s.Modules))
		if err != nil {
			return err
		}
		if err := n.WriteFile(f.To, data, 0o644); err != nil {
			return err
		}
		if i < len(s.Modules) {
			if err := n.SetLabel(f.To, hostops.LabelModule); err != nil {
				out.Line("warning: " + err.Error())
			}
		}
		out.Progress(int64(i+1), int64(len(s.all())))
	}
	return nil
}

// content is a store file as it is laid out.
func content(n *hostops.Node, from string, isModule bool) ([]byte, error) {
	f, err := n.Open(from)
	if err != nil {
		return nil, fmt.Errorf("reading the image store: %w", err)
	}
	defer f.Close()
	var r io.Reader = f
	if isModule {
		if r, _, err = module.Decompress(f); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", from, err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", from, err)
	}
	return data, nil
}

// Undo implements hostops.Action.
func (s *Stage) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	for _, f := range s.all() {
		if slices.Contains(s.Existed, f.To) {
			continue
		}
		if err := n.Remove(f.To); err != nil {
			return fmt.Errorf("removing %s: %w", f.To, err)
		}
		prune(n, path.Dir(f.To), s.Dir)
	}
	return nil
}

// prune removes dir and its parents while they are empty, up to and including
// top.
func prune(n *hostops.Node, dir, top string) {
	for len(dir) >= len(top) && dir != "/" {
		if os.Remove(n.Path(dir)) != nil {
			return
		}
		dir = path.Dir(dir)
	}
}
