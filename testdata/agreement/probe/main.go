// Command probe runs on the machine. It judges every cell with fitout's own
// packages, as workflow does for an image, and then hands the modules to the
// kernel itself: a bare finit_module each, nothing between.
//
//	probe CELLS-DIRECTORY [CELL] >ANSWERS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/agreement"
	"fitout/workflow/judge"
)

func main() {
	if err := probe(os.Args[1], os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// probe answers all cells or, as a process with fewer rights, the one named.
func probe(dir string, only []string, out *os.File) error {
	text, err := os.ReadFile(filepath.Join(dir, "cells.json"))
	if err != nil {
		return err
	}
	var cells []agreement.Cell
	if err := json.Unmarshal(text, &cells); err != nil {
		return fmt.Errorf("reading the cells: %w", err)
	}
	p := &prober{dir: dir, node: hostops.Live(nil), kernels: map[string]*kmod.Kernel{}}
	enc := json.NewEncoder(out)
	for _, c := range cells {
		if len(only) > 0 && c.Name != only[0] {
			continue
		}
		if len(only) == 0 && c.As != agreement.Root {
			if err := askAs(c, dir, out); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			continue
		}
		a, err := p.ask(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

type prober struct {
	dir     string
	node    *hostops.Node
	kernels map[string]*kmod.Kernel
}

// ask gets both answers for one cell.
func (p *prober) ask(c agreement.Cell) (*agreement.Answer, error) {
	a := &agreement.Answer{Cell: c.Name, Kernel: c.Kernel, Running: c.Kernel == p.node.Kernel.Release()}
	if c.Enforce {
		if err := enforceSELinux(filepath.Join(p.dir, "selinux.policy")); err != nil {
			return nil, err
		}
	}
	if c.Disable {
		if err := os.WriteFile("/proc/sys/kernel/modules_disabled", []byte("1"), 0o644); err != nil {
			return nil, err
		}
	}
	k, err := p.kernel(c.Kernel)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	j, err := p.judge(c, k, a)
	if err != nil {
		return nil, err
	}
	a.Micros = time.Since(start).Microseconds()
	a.Verdict, a.Risks = string(j.Verdict), j.Risks
	for _, f := range j.Findings {
		a.Findings = append(a.Findings, agreement.Finding{Code: string(f.Code), Severity: string(f.Severity), Message: f.Message})
	}
	if a.Running {
		p.load(c, k, p.order(c, j), a)
	}
	return a, nil
}

func (p *prober) kernel(release string) (*kmod.Kernel, error) {
	if k, ok := p.kernels[release]; ok {
		return k, nil
	}
	k, err := kmod.OpenKernel(p.node, release, "", kmod.WithCache("/var/cache/agreement"))
	p.kernels[release] = k
	return k, err
}

// judge reads the image and judges it, as workflow/examine.go does.
func (p *prober) judge(c agreement.Cell, k *kmod.Kernel, a *agreement.Answer) (judge.Judgement, error) {
	policy := kmod.ReadPolicy(p.node)
	in := judge.Input{
		Release: c.Kernel, Kernel: k, Machine: p.node.Kernel.Machine(), Modules: c.Modules, Parameters: c.Parameters,
		Accepted: map[string]bool{}, HostFirmware: func(name string) bool { return p.node.Exists("/lib/firmware/" + name) },
	}
	if a.Running {
		in.Policy = &policy
		in.Loaded, _ = kmod.Loaded(p.node)
	} else {
		in.Expected = &policy
	}
	ref, err := image.ParseReference("oci:" + filepath.Join(p.dir, "images") + ":" + c.Image)
	if err != nil {
		return judge.Judgement{}, err
	}
	img, err := image.Open(context.Background(), ref, image.Options{})
	if err != nil {
		return judge.Judgement{}, err
	}
	to, err := os.MkdirTemp("", "cell-")
	if err != nil {
		return judge.Judgement{}, err
	}
	defer os.RemoveAll(to)
	if in.Inventory, err = img.Fetch(context.Background(), to+"/image", image.Want{Releases: []string{c.Kernel}, Licences: true}); err != nil {
		return judge.Judgement{}, err
	}
	return judge.Judge(in), nil
}

// file is what is handed to the kernel.
type file struct{ module, path string }

// order is what the verdict says is to be loaded, or, where it names nothing,
// the modules as they were wanted.
func (p *prober) order(c agreement.Cell, j judge.Judgement) []file {
	var files []file
	for _, l := range j.Load {
		switch {
		case l.From == "host" && l.Loaded:
		case l.From == "host":
			files = append(files, file{l.Module, l.Path})
		default:
			files = append(files, file{l.Module, filepath.Join(p.dir, "files", c.Image, l.Path)})
		}
	}
	if len(files) > 0 {
		return files
	}
	for _, m := range slices.Backward(c.Modules) {
		found, _ := filepath.Glob(filepath.Join(p.dir, "files", c.Image, "opt/lib/modules/*/updates", m+".ko*"))
		for _, f := range found {
			files = append(files, file{m, f})
		}
	}
	return files
}

// load hands the files to the kernel until it refuses one, and takes all out
// again.
func (p *prober) load(c agreement.Cell, k *kmod.Kernel, files []file, a *agreement.Answer) {
	if dir := filepath.Join(p.dir, "files", c.Image, "firmware"); exists(dir) {
		setFirmwarePath(dir)
		defer setFirmwarePath("\x00")
	}
	policy := kmod.ReadPolicy(p.node)
	var in []string
	for _, f := range files {
		l := agreement.Load{Module: f.module, Path: f.path}
		if c.Modprobe {
			l.ByModprobe = byModprobe(f.module)
		}
		if policy.SELinux == "enforcing" {
			p.unlabelled(&l, k, &policy)
		}
		err := p.try(&l, c, k, &policy)
		if err == nil {
			in = append(in, f.module)
			l.Taint, _ = p.node.ReadString(path.Join("/sys/module", f.module, "taint"))
		}
		a.Loads = append(a.Loads, l)
		if err != nil {
			break
		}
	}
	for _, m := range slices.Backward(in) {
		remove(m)
	}
}

// try is one finit_module, and fitout's words for its answer.
func (p *prober) try(l *agreement.Load, c agreement.Cell, k *kmod.Kernel, policy *kmod.Policy) error {
	log, _ := kmod.OpenLog(p.node)
	err := insert(l.Path, strings.Join(c.Parameters[l.Module], " "), l)
	l.Log = nil
	for _, line := range log.Lines() {
		l.Log = append(l.Log, line.Text)
	}
	_ = log.Close()
	if err == nil {
		return nil
	}
	info, _ := module.ReadFile(l.Path)
	r := kmod.Explain(kmod.Attempt{Module: l.Module, Path: l.Path, Err: err, Log: l.Log, Policy: policy, Info: info, Tables: k.Tables, Label: label(l.Path)})
	l.Errno, l.Code = r.Errno, r.Code
	if l.Errno == "" {
		l.Errno = err.Error()
	}
	return err
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
