package workflow

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/workflow/actions"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
	"fitout/workflow/run"
)

// Examine reads the images of an offer into the store and judges them for every
// kernel that may boot. The store is a cache below the state directory; nothing
// else on the node changes.
func (e *Engine) Examine(ctx context.Context, s *Survey, k Kind, o Offer, p image.Progress) (*Examined, error) {
	return e.examine(ctx, s, question{offer: o, devices: modaliases(s, k.Devices), authFiles: e.typed()}, p)
}

// question is what an examination depends on beyond the node.
type question struct {
	offer      Offer
	devices    []string            // modaliases to be driven
	pins       map[string]string   // kernel release → digest
	parameters map[string][]string // given by the answers, over the catalog's
	accepted   []string            // risks
	authFiles  []string            // credentials for registries
	// newer asks for builds for kernels newer than the running one too: an
	// upgrade may bring them when there is no network.
	newer bool
	// exact asks for builds for the kernels named only: all others would be of
	// no use.
	exact bool
	// terms says why a licence stops the run, nil when it does not; nothing of
	// a driver is fetched before it was asked. nil: the terms are asked later.
	terms func(Licence) error
	// known are the names of licences of which some text was accepted.
	known map[string]bool
}

// want is what of the image the question needs: of a packed image in a registry
// that answers ranges, only the modules for the devices.
func (q question) want(releases []string) image.Want {
	d := q.offer.Driver
	w := image.Want{Releases: releases, DirName: d.DirName, Firmware: d.Firmware, Licences: true, LicenceFile: licenceFile(d), Modules: d.Modules}
	if len(w.Modules) == 0 {
		w.Devices = q.devices
	}
	return w
}

func modaliases(s *Survey, devices []int) []string {
	var out []string
	for _, i := range devices {
		if m := s.Devices[i].Modalias; !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

func (e *Engine) examine(ctx context.Context, s *Survey, q question, p image.Progress) (*Examined, error) {
	x := &Examined{Offer: q.offer, Inventories: map[string]*image.Inventory{}, Errors: map[string]error{},
		Stores: map[string]string{}}
	byRef, pub := map[string]*stored{}, &publisher{e: e, q: q, lists: map[string]tagList{}}
	for _, kernel := range s.Kernels {
		ref, ok := q.offer.References[kernel.Release]
		if !ok {
			j := noMapping(kernel, q.offer)
			j.Findings = append(j.Findings, pub.nearest(ctx, kernel.Release)...)
			x.Judgements = append(x.Judgements, j)
			continue
		}
		got, seen := byRef[ref]
		if !seen {
			got = e.store(ctx, s, q, kernel.Release, ref, p)
			byRef[ref] = got
		}
		if got.err != nil {
			x.Errors[kernel.Release] = got.err
			j := noImage(kernel, ref, got.err)
			if code := codeOf(got.err); code == image.TagMissing || code == image.NotFound {
				j.Findings = append(j.Findings, pub.nearest(ctx, kernel.Release)...)
				x.Errors[kernel.Release] = withFindings(got.err, j.Findings)
			}
			x.Judgements = append(x.Judgements, j)
			continue
		}
		x.Inventories[kernel.Release], x.Stores[kernel.Release] = got.inventory, got.dir
		x.Judgements = append(x.Judgements, e.judge(s, kernel, q, got.inventory))
	}
	for _, got := range byRef {
		if got.inventory != nil {
			x.Bytes += got.inventory.Bytes
		}
	}
	if x.Driver.Source == givenByHand && len(x.Driver.Modules) == 0 {
		x.Driver.Name = drivenBy(x, q.devices)
	}
	x.Licences = e.licences(s, x)
	if len(x.Inventories) == 0 {
		for _, err := range x.Errors {
			return x, err
		}
	}
	return x, nil
}

// drivenBy names a driver that no catalog names: by its module that has the
// devices or, where none can be told, as it was called before.
func drivenBy(x *Examined, devices []string) string {
	for i := range x.Judgements {
		inv := x.Inventories[x.Judgements[i].Release]
		if inv == nil || len(devices) == 0 {
			continue
		}
		if m := driving(inv, &x.Judgements[i], devices[0]); m != nil {
			return m.Info.Name
		}
	}
	return x.Driver.Name
}

// judge puts everything a verdict depends on together.
func (e *Engine) judge(s *Survey, kernel host.Kernel, q question, inv *image.Inventory) judge.Judgement {
	in := judge.Input{
		Inventory: inv, Release: kernel.Release,
		Modules: q.offer.Driver.Modules, Replaces: q.offer.Driver.Replaces, Except: q.offer.Driver.Except,
		Devices: q.devices, Parameters: parameters(q),
		HostFirmware: e.hostFirmware(kernel),
		Machine:      e.Node.Kernel.Machine(),
		Accepted:     map[string]bool{},
		InInitramfs: func(names []string) ([]string, string, error) {
			return host.InInitrd(e.Node, kernel, names)
		},
	}
	for _, r := range q.accepted {
		in.Accepted[r] = true
	}
	if k, err := e.openKernel(s, kernel); err == nil {
		in.Kernel = k
	}
	policy := kmod.ReadPolicy(e.Node)
	if slices.Contains(kernel.Roles, host.Running) {
		in.Policy = &policy
		in.Loaded, _ = kmod.Loaded(e.Node)
	} else {
		in.Expected = &policy
	}
	out := judge.Judge(in)
	if in.Policy != nil && !e.Node.Exists(kernel.Dir) {
		out.Findings = append(out.Findings, finding.New("modules-gone", kernel.Release)) // why nothing is sure
	}
	return out
}

func parameters(q question) map[string][]string {
	if q.parameters != nil {
		return q.parameters
	}
	return q.offer.Driver.Parameters
}

func (e *Engine) openKernel(s *Survey, kernel host.Kernel) (*kmod.Kernel, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k, ok := e.kernels[kernel.Dir]; ok {
		return k, nil
	}
	k, err := kmod.OpenKernel(e.Node, kernel.Release, kernel.Dir, kmod.WithCache(e.Node.Path(path.Join(s.Host.StateDir, "cache"))))
	if err != nil {
		return nil, err
	}
	if e.kernels == nil {
		e.kernels = map[string]*kmod.Kernel{}
	}
	e.kernels[kernel.Dir] = k
	return k, nil
}

// hostFirmware says whether a kernel of this host finds a firmware file in its
// fixed search directories (drivers/base/firmware_loader/main.c), packed or not.
func (e *Engine) hostFirmware(kernel host.Kernel) func(string) bool {
	root := path.Join("/", kernel.OSRoot)
	return func(name string) bool {
		for _, dir := range []string{"lib/firmware/updates/" + kernel.Release, "lib/firmware/updates", "lib/firmware/" + kernel.Release, "lib/firmware"} {
			for _, suffix := range []string{"", ".xz", ".zst"} {
				if e.Node.Exists(path.Join(root, dir, name) + suffix) {
					return true
				}
			}
		}
		return false
	}
}

// withFindings is an error that carries findings, for those who show them.
func withFindings(err error, found []finding.Finding) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Findings = found
	return &c
}

func noMapping(kernel host.Kernel, o Offer) judge.Judgement {
	f := finding.New("image-missing", o.Driver.Name, kernel.Release)
	f.Evidence = strings.Split(o.Why, "\n")
	return judge.Judgement{Release: kernel.Release, Verdict: finding.NoModule, Findings: []finding.Finding{f}}
}

func noImage(kernel host.Kernel, ref string, err error) judge.Judgement {
	f := finding.New("image-missing", ref, kernel.Release)
	f.Evidence = []string{err.Error()}
	v := finding.NoModule
	if ExitOf(err) == ExitUnreachable {
		v = finding.Unsure
	}
	return judge.Judgement{Release: kernel.Release, Verdict: v, Findings: []finding.Finding{f}}
}

// ImageOptions say how images are read on this node.
func (e *Engine) ImageOptions(authFiles ...string) (image.Options, error) {
	opts, err := actions.Options(e.Node, authFiles, e.PlainHTTP)
	if err != nil {
		err = &Error{Exit: ExitFile, Code: "file-not-valid", Message: err.Error(), Err: err}
	}
	return opts, err
}

// imageOptions say how the images of a question are read.
func (e *Engine) imageOptions(q question) (image.Options, error) {
	opts, err := e.ImageOptions(q.authFiles...)
	opts.PlainHTTP = opts.PlainHTTP || slices.Contains(q.accepted, "plain-http")
	return opts, err
}

// ImageError gives an error of reading an image its exit code.
func ImageError(reference string, err error) error {
	return ImageFailed("reading "+reference, err)
}

// ImageFailed gives an image error its exit code; doing is what was done.
func ImageFailed(doing string, err error) error {
	var ie *image.Error
	if !errors.As(err, &ie) {
		return stopf(ExitForbidden, "image-unreadable", "", "%s: %v", doing, err)
	}
	hint := ie.Hint
	if ie.Code == image.Limit && hint == "" {
		hint = "where the image is to be trusted with more, set the limit in " + actions.SettingsFile + ": images: {limits: {NAME: NUMBER}}"
	}
	return &Error{Exit: imageExit(ie.Code), Code: ie.Code, Message: fmt.Sprintf("%s: %s", doing, ie.Error()), Hint: hint, Err: err}
}

// ReferenceError is a text that names no image.
func ReferenceError(err error) *Error {
	e := &Error{Exit: ExitUsage, Code: image.BadReference, Message: err.Error(), Err: err}
	var ie *image.Error
	if errors.As(err, &ie) {
		e.Hint = ie.Hint
	}
	return e
}

// imageExit maps an image error's code to the program's exit code.
func imageExit(code image.Code) int {
	switch code {
	case image.Unreachable, image.TLS, image.Proxy, image.RateLimited, image.Truncated, image.ClockSkew:
		return ExitUnreachable
	case image.Unauthorised, image.Denied:
		return ExitPerson
	case image.NotFound, image.TagMissing, image.NoPlatform, image.UnknownLayout, image.Ambiguous, image.NoModule:
		return ExitNoMatch
	case image.BadReference:
		return ExitUsage
	case image.NotReadable, image.NotWritable:
		return ExitFile
	}
	return ExitForbidden
}

// licences collects the texts to accept for a driver, each once.
func (e *Engine) licences(s *Survey, x *Examined) []Licence {
	var out []Licence
	for _, release := range s.releases() {
		inv := x.Inventories[release]
		if inv == nil {
			continue
		}
		for _, l := range licenceTexts(x.Driver, inv) {
			if !slices.ContainsFunc(out, func(o Licence) bool { return o.Digest == l.Digest }) {
				out = append(out, l)
			}
		}
	}
	accepted := run.AcceptedLicences(e.Node, s.Host.StateDir)
	for i := range out {
		out[i].Accepted = accepted[out[i].Digest]
	}
	return out
}
