package kmod

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fitout/hostops"
)

// FirmwareParam is the one directory that the kernel searches before
// /lib/firmware (kernel, drivers/base/firmware_loader/main.c, fw_path_para).
const FirmwareParam = "/sys/module/firmware_class/parameters/path"

// maxFirmwarePath in bytes; longer writes fail with ENOSPC.
const maxFirmwarePath = 255

// FirmwarePath is the kernel's extra firmware directory, "" for none.
func FirmwarePath(n *hostops.Node) (string, error) {
	b, err := n.ReadFile(FirmwareParam)
	if err != nil {
		return "", fmt.Errorf("reading the firmware path: %w", err)
	}
	dir, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(dir), nil
}

// FirmwarePathTaken says that somebody else uses the kernel's only extra
// firmware directory.
type FirmwarePathTaken struct{ Value string }

func (e *FirmwarePathTaken) Error() string {
	return fmt.Sprintf("setting the firmware path: it is %s already, and the kernel has only one; join that directory's files into the new one by links and allow the change, or put the firmware there", e.Value)
}

// SetFirmwarePath makes the kernel look for firmware in Dir first. A value that
// somebody else set is not overwritten unless the caller has merged it.
type SetFirmwarePath struct {
	Dir string
	// Merged is the foreign value that may be replaced, because Dir holds what
	// it holds; "" for none.
	Merged string
	// Old is the value before, of Prepare.
	Old      string
	Prepared bool
}

// Kind implements hostops.Action.
func (*SetFirmwarePath) Kind() string { return "set-firmware-path" }

// Describe implements hostops.Action.
func (a *SetFirmwarePath) Describe() hostops.Description {
	d := hostops.Description{
		Title:    "let the kernel find the firmware",
		Text:     []string{fmt.Sprintf("printf %%s %s > %s", a.Dir, FirmwareParam)},
		Undo:     []string{fmt.Sprintf("printf '\\0' > %s (no value, as before)", FirmwareParam)},
		Estimate: time.Second,
	}
	if a.Old != "" {
		d.Undo = []string{fmt.Sprintf("printf %%s %s > %s", a.Old, FirmwareParam)}
	}
	return d
}

// Prepare implements hostops.Action.
func (a *SetFirmwarePath) Prepare(_ context.Context, n *hostops.Node) error {
	switch {
	case len(a.Dir) > maxFirmwarePath:
		return fmt.Errorf("setting the firmware path: %s is longer than the %d bytes that the kernel takes", a.Dir, maxFirmwarePath)
	case a.Dir == "" || strings.ContainsAny(a.Dir, "\n\x00"):
		return fmt.Errorf("setting the firmware path: %q is not a directory's name the kernel can use", a.Dir)
	}
	old, err := FirmwarePath(n)
	if err != nil {
		return err
	}
	if old != "" && old != a.Dir && old != a.Merged {
		return &FirmwarePathTaken{old}
	}
	a.Old, a.Prepared = old, true
	return nil
}

// Do implements hostops.Action.
func (a *SetFirmwarePath) Do(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	return WriteFirmwarePath(n, a.Dir)
}

// WriteFirmwarePath writes the value without a newline, which would become part
// of it and make every lookup fail; one NUL byte clears it. Then it reads back.
func WriteFirmwarePath(n *hostops.Node, dir string) error {
	word := dir
	if dir == "" {
		word = "\x00"
	}
	if err := n.WriteKernel(FirmwareParam, word); err != nil {
		return fmt.Errorf("setting the firmware path: %w", err)
	}
	now, err := FirmwarePath(n)
	if err != nil {
		return err
	}
	if now != dir {
		return fmt.Errorf("setting the firmware path: wrote %q, and it reads %q", dir, now)
	}
	return nil
}

// Done implements hostops.Action.
func (a *SetFirmwarePath) Done(_ context.Context, n *hostops.Node) (bool, error) {
	now, err := FirmwarePath(n)
	return err == nil && now == a.Dir, err
}

// Undo implements hostops.Action. A value that somebody set since stays.
func (a *SetFirmwarePath) Undo(_ context.Context, n *hostops.Node, out hostops.Sink) error {
	if !a.Prepared {
		return nil
	}
	now, err := FirmwarePath(n)
	if err != nil {
		return err
	}
	if now == a.Old {
		return nil
	}
	if now != a.Dir {
		out.Line(fmt.Sprintf("the firmware path was changed to %s since and is left so", now))
		return nil
	}
	return WriteFirmwarePath(n, a.Old)
}
