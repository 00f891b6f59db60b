package agreement_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/agreement"
	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// boot is one start of the machine.
type boot struct {
	name    string
	kernel  debian.Kernel
	cmdline string
	want    func(row) string
	// last says that the rows about rights are asked too: they need SELinux,
	// and leave a machine that loads nothing any more.
	last bool
}

// The verdict is made from files; then the kernel is asked. They say the same
// in every cell: "ok" and "ok-kabi" load, "blocked" is refused for the reason
// that the finding names, and "unsure" counts only where the table says why.
func TestVerdictAgreesWithTheKernel(t *testing.T) {
	m := newMaterial(t)
	boots := []boot{
		// The kernel writes SELinux's denials to its log on the one kernel, and is silent on the other.
		{"plain", m.stock, "security=selinux audit=1 " + blacklistWords, func(r row) string { return r.plain }, true},
		{"sig_enforce", m.stock, "module.sig_enforce=1", func(r row) string { return r.enforced }, false},
		{"lockdown", m.stock, "lockdown=integrity", func(r row) string { return r.locked }, false},
		{"plus", m.plus, "security=selinux " + blacklistWords, func(r row) string { return r.plus }, true},
	}
	rows := slices.Concat(identity, symbols, signatures, damaged, packed, needs, hosts, foreign(m))
	w := &imageWriter{dir: t.TempDir(), tags: map[string]bool{}}
	tool := filepath.Join(t.TempDir(), "probe")
	require.NoError(t, program.Build(tool, "fitout/testdata/agreement/probe"))
	compilePolicy(t, filepath.Join(w.dir, "selinux.policy"))

	result := newTally(t, slices.Concat(rows, rights))
	for _, b := range boots {
		cells := m.cells(w, rows, b)
		if b.name == "plain" {
			cells = append(cells, m.cells(w, rows, boots[len(boots)-1])...) // 6.12 may boot next
		}
		if b.last {
			cells = append(cells, m.cells(w, rights, b)...)
		}
		result.take(b, ask(t, m, b, w.dir, tool, cells))
	}
	result.report()
}

// compilePolicy makes the kernel's form of the SELinux policy.
func compilePolicy(t *testing.T, to string) {
	t.Helper()
	out, err := exec.Command("checkpolicy", "-M", "-U", "allow", "-c", "33", "-o", to, "selinux.conf").CombinedOutput()
	require.NoError(t, err, "compiling the policy takes checkpolicy (make deps): %s", out)
}

// cells makes the images and cells that a boot has an expectation for.
func (m *material) cells(w *imageWriter, rows []row, b boot) []agreement.Cell {
	var cells []agreement.Cell
	for _, r := range rows {
		if b.want(r) != "" {
			cells = append(cells, m.cell(w, r, b.kernel.Release))
		}
	}
	return cells
}

// cell lays a row's image out for a kernel release.
func (m *material) cell(w *imageWriter, r row, release string) agreement.Cell {
	if len(r.modules) == 0 {
		r.modules = []string{"dummy"}
	}
	tag := tagOf(r.name + "-for-" + release)
	require.NoError(m.t, w.write(tag, func() map[string][]byte {
		placed := map[string][]byte{}
		for name, data := range r.make(m, release) {
			if !strings.Contains(name, "/") {
				name = "opt/lib/modules/" + release + "/updates/" + name
			}
			placed[name] = data
		}
		return placed
	}))
	return agreement.Cell{Name: r.name, Image: tag, Kernel: release, Modules: r.modules, Parameters: r.parameters,
		As: r.as, Enforce: r.enforce, Disable: r.disable, Modprobe: r.modprobe}
}

// ask boots the machine and lets it answer all cells.
func ask(t *testing.T, m *material, b boot, media, tool string, cells []agreement.Cell) []agreement.Answer {
	t.Helper()
	text, err := json.MarshalIndent(cells, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(media, "cells.json"), text, 0o644))
	machine, err := vm.New(vm.Config{
		Kernel: m.stock, AlsoInstalled: []debian.Kernel{m.plus}, Cmdline: b.cmdline,
		Media: map[string]string{"cells": media}, Tools: map[string]string{"probe": tool}, Files: blacklistFile,
	})
	require.NoError(t, err)
	defer machine.Close()
	require.NoError(t, machine.Boot(b.kernel))
	start := time.Now()
	out, code := machine.RunFor(20*time.Minute, "/tools/probe /media/cells")
	require.Zero(t, code, "%s\n%s", out, machine.Console.Text())
	var answers []agreement.Answer
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "{") {
			t.Logf("%s: %s", b.name, strings.TrimSpace(line))
			continue
		}
		var a agreement.Answer
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		answers = append(answers, a)
	}
	require.Len(t, answers, len(cells))
	t.Logf("%s: up after %.0f s, %d cells in %.0f s", b.name, machine.Boots[0].Seconds(), len(cells), time.Since(start).Seconds())
	return answers
}
