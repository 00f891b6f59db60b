package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
)

// imageDocument is one offer with its verdicts.
type imageDocument struct {
	Driver     string            `json:"driver"`
	Title      string            `json:"title,omitempty"`
	Device     string            `json:"device"`
	References map[string]string `json:"references"`
	Bytes      int64             `json:"bytes"`
	Verdicts   []judge.Judgement `json:"verdicts"`
	Error      string            `json:"error,omitempty"`
	Unverified bool              `json:"unverified,omitempty"`
}

func (a *app) imagesVerb() *cobra.Command {
	var device string
	var all bool
	c := &cobra.Command{
		Use:   "images",
		Short: "List driver images for the devices, with a verdict for every kernel that may boot",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := a.placeForImages()
			if err != nil {
				return err
			}
			defer done()
			items, err := a.examineAll(cmd.Context(), device, all)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON("ImageList", map[string]any{"items": items})
			}
			for _, it := range items {
				mark := ""
				if it.Unverified {
					mark = "  (unverified)"
				}
				a.printf("%s for %s%s\n", it.Driver, it.Device, mark)
				for _, j := range it.Verdicts {
					a.printf("  %-28s %-10s %s\n", j.Release, finding.VerdictWord(j.Verdict), it.References[j.Release])
				}
				if it.Error != "" {
					a.printf("  %s\n", it.Error)
				}
			}
			if len(items) == 0 {
				a.printf("No image in the catalog is for a device of this node.\n")
			}
			return nil
		},
	}
	c.Flags().StringVar(&device, "device", "", "only for this ADDRESS or VENDOR:DEVICE")
	c.Flags().BoolVar(&all, "all", false, "also for devices that work")
	return c
}

func (a *app) examineAll(ctx context.Context, device string, all bool) ([]imageDocument, error) {
	s, err := a.hardware(ctx)
	if err != nil {
		return nil, err
	}
	items := []imageDocument{}
	for _, k := range s.Kinds {
		if device != "" && !kindHas(s, k, device) {
			continue
		}
		if device == "" && !all && k.State == finding.StateOK {
			continue
		}
		for _, o := range a.engine.Offers(s, k) {
			it := imageDocument{Driver: o.Driver.Name, Title: o.Driver.Title, Device: k.ID, References: o.References, Unverified: o.Driver.Unverified}
			x, err := a.engine.Examine(ctx, s, k, o, nil)
			if x != nil {
				it.Verdicts, it.Bytes = x.Judgements, x.Bytes
			}
			if err != nil {
				it.Error = err.Error()
			}
			items = append(items, it)
		}
	}
	return items, nil
}

// placeForImages lets one who may not write the image store look into images
// all the same: they are read into a directory that done removes.
func (a *app) placeForImages() (done func(), err error) {
	e, err := a.open()
	if err != nil {
		return nil, err
	}
	if e.MayStore() {
		return func() {}, nil
	}
	if e.Scratch, err = os.MkdirTemp("", "fitout-look-"); err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(e.Scratch) }, nil
}

func kindHas(s *workflow.Survey, k workflow.Kind, device string) bool {
	if k.ID == strings.ToLower(device) {
		return true
	}
	for _, i := range k.Devices {
		if s.Devices[i].Address == device {
			return true
		}
	}
	return false
}

func (a *app) whyVerb() *cobra.Command {
	var device, kernel string
	c := &cobra.Command{
		Use:   "why IMAGE|DRIVER",
		Short: "Show every check behind a verdict, with its evidence",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := a.placeForImages()
			if err != nil {
				return err
			}
			defer done()
			x, err := a.examineOne(cmd.Context(), args[0], device, kernel)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON("Why", map[string]any{"image": args[0], "references": x.References, "verdicts": x.Judgements, "why": x.Why})
			}
			for _, j := range x.Judgements {
				a.judgementText(j)
			}
			return nil
		},
	}
	c.Flags().StringVar(&device, "device", "", "for this ADDRESS or VENDOR:DEVICE")
	c.Flags().StringVar(&kernel, "kernel", "", "only for this kernel")
	return c
}

func (a *app) judgementText(j judge.Judgement) {
	a.printf("kernel %s: %s\n", j.Release, finding.VerdictWord(j.Verdict))
	for _, c := range j.Checks {
		a.printf("  %-22s %-12s %s\n", c.Name, c.Result, c.Detail)
	}
	for _, f := range j.Findings {
		a.findingText(f)
	}
	for _, l := range j.Load {
		a.printf("  loads %-16s from the %s: %s\n", l.Module, l.From, l.Path)
	}
}

// examineOne judges a catalog driver by name, or an image by reference, for one
// kernel or for all that may boot.
func (a *app) examineOne(ctx context.Context, what, device, kernel string) (*workflow.Examined, error) {
	s, err := a.hardware(ctx)
	if err != nil {
		return nil, err
	}
	var may []string
	for _, k := range s.Kernels {
		may = append(may, k.Release)
	}
	if kernel != "" {
		s.Kernels = slices.DeleteFunc(s.Kernels, func(k host.Kernel) bool { return k.Release != kernel })
	}
	if len(s.Kernels) == 0 {
		return nil, &workflow.Error{Exit: workflow.ExitNoMatch, Code: "no-kernel", Message: "kernel " + kernel + " cannot boot on this node",
			Hint: "name one of: " + strings.Join(slices.Compact(may), ", ") + "; for another kernel: fitout image inspect IMAGE --kernel " + kernel}
	}
	kind := workflow.Kind{}
	for _, k := range s.Kinds {
		if device != "" && kindHas(s, k, device) {
			kind = k
		}
	}
	if device != "" && kind.ID == "" {
		return nil, &workflow.Error{Exit: workflow.ExitNoMatch, Code: "no-device", Message: "this node has no device " + device}
	}
	d, ok := a.engine.Catalog.Driver(what)
	if !ok {
		return a.engine.Examine(ctx, s, kind, a.engine.OfferImage(s, kind, what), nil)
	}
	for _, k := range s.Kinds {
		for _, o := range a.engine.Offers(s, k) {
			if o.Driver.Name == d.Name && (kind.ID == "" || kind.ID == k.ID) {
				return a.engine.Examine(ctx, s, k, o, nil)
			}
		}
	}
	return a.engine.Examine(ctx, s, kind, a.engine.OfferDriver(s, d), nil)
}

func (a *app) imageVerb() *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "Look into, build and copy driver images"}
	c.AddCommand(a.imageInspect(), a.imagePack(), a.imageCopy())
	return c
}

func (a *app) imageInspect() *cobra.Command {
	var kernel string
	c := &cobra.Command{
		Use:   "inspect REFERENCE",
		Short: "Show what an image holds and for which kernels",
		Args:  cobra.ExactArgs(1),
		RunE: a.reads(func(cmd *cobra.Command, args []string, e *workflow.Engine) error {
			inv, done, err := e.Inspect(cmd.Context(), args[0], kernel)
			if err != nil {
				return err
			}
			defer done()
			doc := inspection(inv)
			if kernel != "" {
				j, err := e.JudgeFor(cmd.Context(), inv, kernel)
				if err != nil {
					return err
				}
				doc["verdict"], doc["findings"] = j.Verdict, j.Findings
				if !a.json {
					a.judgementText(*j)
					return nil
				}
			}
			if a.json {
				return a.printJSON("Image", doc)
			}
			a.inventoryText(inv)
			return nil
		}),
	}
	c.Flags().StringVar(&kernel, "kernel", "", "only what is for this kernel, and judge it")
	return c
}

// inspection is an inventory as --json prints it.
func inspection(inv *image.Inventory) map[string]any {
	kernels := []map[string]any{}
	for _, k := range inv.Kernels {
		mods := []map[string]any{}
		for _, m := range k.Modules {
			var params []string
			for _, p := range m.Info.Parameters {
				params = append(params, p.Name)
			}
			signer := ""
			if m.Info.Signature != nil {
				signer = m.Info.Signature.Signer
			}
			mods = append(mods, map[string]any{
				"name": m.Info.Name, "path": m.Path, "vermagic": strings.TrimSpace(m.Info.Vermagic), "version": m.Info.Version,
				"aliases": list(m.Info.Aliases), "depends": list(m.Info.Depends), "firmware": list(m.Info.Firmware),
				"parameters": list(params), "signer": signer, "compressed": string(m.Info.Packed),
			})
		}
		kernels = append(kernels, map[string]any{"release": k.Release, "tree": k.Tree, "modules": mods})
	}
	licences := []map[string]string{}
	for _, l := range inv.Licences {
		licences = append(licences, map[string]string{"path": l.Path, "digest": l.Digest})
	}
	firmware := []string{}
	for _, f := range inv.Firmware {
		firmware = append(firmware, f.Name)
	}
	return map[string]any{
		"reference": inv.Reference, "digest": inv.Digest, "layout": inv.Layout, "bytes": inv.Bytes,
		"releases": list(inv.Releases), "kernels": kernels, "firmware": firmware, "licences": licences, "notes": list(inv.Notes),
	}
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func (a *app) inventoryText(inv *image.Inventory) {
	a.printf("%s\n  digest   %s\n  layout   %s\n", inv.Reference, inv.Digest, inv.Layout)
	for _, k := range inv.Kernels {
		a.printf("  kernel   %s in /%s\n", k.Release, k.Tree)
		for _, m := range k.Modules {
			a.printf("    %-20s %-10s %d aliases, needs %s\n", m.Info.Name, m.Info.Version, len(m.Info.Aliases), orDash(strings.Join(m.Info.Depends, " ")))
		}
	}
	for _, f := range inv.Firmware {
		a.printf("  firmware %s\n", f.Name)
	}
	for _, l := range inv.Licences {
		a.printf("  licence  %s %s\n", l.Path, l.Digest)
	}
	for _, n := range inv.Notes {
		a.printf("  note     %s\n", n)
	}
}
