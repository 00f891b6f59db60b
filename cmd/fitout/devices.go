package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fitout/hostops/node"
	"fitout/hostops/pci"
	"fitout/workflow"
	"fitout/workflow/finding"
)

// deviceDocument is a device as --json prints it.
type deviceDocument struct {
	Address           string               `json:"address"`
	Modalias          string               `json:"modalias"`
	VendorID          string               `json:"vendorId"`
	DeviceID          string               `json:"deviceId"`
	SubsystemVendorID string               `json:"subsystemVendorId"`
	SubsystemDeviceID string               `json:"subsystemDeviceId"`
	ClassCode         string               `json:"classCode"`
	Revision          string               `json:"revision,omitempty"`
	Vendor            *string              `json:"vendor"`
	Name              *string              `json:"name"`
	ClassName         *string              `json:"className"`
	Driver            *string              `json:"driver"`
	State             finding.State        `json:"state"`
	Findings          []finding.Finding    `json:"findings"`
	Parent            *string              `json:"parent"`
	Candidates        []workflow.Candidate `json:"candidates"`
	NearMisses        []string             `json:"nearMisses"`
	// InUse says who holds it, where one device was asked for; UsersUnknown what of
	// that could not be looked at.
	InUse        []node.Use `json:"inUse,omitempty"`
	UsersUnknown string     `json:"usersUnknown,omitempty"`
}

func documentOf(d workflow.Device) deviceDocument {
	doc := deviceDocument{
		Address: d.Address, Modalias: d.Modalias, VendorID: d.VendorID, DeviceID: d.DeviceID,
		SubsystemVendorID: d.SubsystemVendorID, SubsystemDeviceID: d.SubsystemDeviceID,
		ClassCode: d.ClassCode, Revision: d.Revision,
		Vendor: orNull(d.VendorName), Name: orNull(d.Name), ClassName: orNull(d.ClassName),
		Driver: orNull(d.Driver), State: d.State, Parent: orNull(d.PhysFn),
		Findings: d.Findings, Candidates: d.Candidates, NearMisses: d.NearMisses,
	}
	if doc.Findings == nil {
		doc.Findings = []finding.Finding{}
	}
	if doc.Candidates == nil {
		doc.Candidates = []workflow.Candidate{}
	}
	if doc.NearMisses == nil {
		doc.NearMisses = []string{}
	}
	return doc
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *app) devicesVerb() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "List the devices, the driver each has and its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.hardware(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.devicesJSON(s, all)
			}
			a.devicesText(s, all)
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every function, also those that need no driver")
	return c
}

func (a *app) hardware(ctx context.Context) (*workflow.Survey, error) {
	e, err := a.open()
	if err != nil {
		return nil, err
	}
	s, err := e.Hardware(ctx)
	var none *pci.NoBusError
	if errors.As(err, &none) {
		return nil, &workflow.Error{Exit: workflow.ExitUnsupported, Code: "no-pci", Message: err.Error(), Err: err}
	}
	return s, err
}

func (a *app) devicesJSON(s *workflow.Survey, all bool) error {
	items := []deviceDocument{}
	missing := []string{}
	for _, d := range s.Devices {
		if d.State == finding.StateNeedsDriver || d.State == finding.StateNoImage {
			missing = append(missing, d.Address)
		}
		if all || d.State != finding.StateNotNeeded {
			items = append(items, documentOf(d))
		}
	}
	return a.printJSON("DeviceList", map[string]any{
		"items": items, "scanned": len(s.Devices), "missing": missing, "kernel": s.Running(), "simulated": s.Simulated,
	})
}

func (a *app) devicesText(s *workflow.Survey, all bool) {
	if s.Simulated {
		a.printf("(recorded node below %s: kernel calls and commands are simulated)\n", a.rootDir)
	}
	if all {
		for _, d := range s.Devices {
			a.printf("%-13s %s  %-14s %-12s %s\n", d.Address, d.ID(), finding.StateWord(d.State), orDash(d.Driver), d.Name)
		}
		return
	}
	open := 0
	for _, k := range s.Kinds {
		a.printf("%2dx %s  %-14s %-12s %s\n", len(k.Devices), k.ID, finding.StateWord(k.State), orDash(k.Driver), k.Name)
		a.kindText(s, k)
		switch k.State {
		case finding.StateOK, finding.StatePassedThrough:
		default:
			open++
		}
	}
	if open == 0 {
		a.printf("Scanned %d PCI functions, all have a driver or need none. Nothing to fit out.\n", len(s.Devices))
	}
}

// kindText lists a kind's slots and what was found about them.
func (a *app) kindText(s *workflow.Survey, k workflow.Kind) {
	var slots []string
	seen := map[string]bool{}
	var findings []string
	for _, i := range k.Devices {
		d := s.Devices[i]
		slot := d.Address
		if d.VirtualFns > 0 {
			slot += fmt.Sprintf(" (%d virtual functions)", d.VirtualFns)
		}
		slots = append(slots, slot)
		for _, f := range d.Findings {
			if line := fmt.Sprintf("%s: %s", f.Code, f.Message); !seen[line] {
				seen[line] = true
				findings = append(findings, line)
			}
		}
	}
	for n := 0; n < len(slots); n += 5 {
		a.printf("      %s\n", strings.Join(slots[n:min(n+5, len(slots))], "  "))
	}
	for _, f := range findings {
		a.printf("        %s\n", f)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) deviceVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "device ADDRESS|VENDOR:DEVICE",
		Short: "Show one device, or all of one kind",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.hardware(cmd.Context())
			if err != nil {
				return err
			}
			found, err := pick(s, args[0])
			if err != nil {
				return err
			}
			e, err := a.open()
			if err != nil {
				return err
			}
			items := []deviceDocument{}
			for _, d := range found {
				doc := documentOf(d)
				if doc.InUse, err = e.Users(d); err != nil {
					doc.UsersUnknown = err.Error()
				}
				items = append(items, doc)
				if !a.json {
					a.deviceText(d, doc)
				}
			}
			if a.json {
				return a.printJSON("DeviceList", map[string]any{"items": items})
			}
			return nil
		},
	}
}

// pick finds devices by address, by a short address that only one domain has,
// or by id.
func pick(s *workflow.Survey, what string) ([]workflow.Device, error) {
	var plain []pci.Device
	var found []workflow.Device
	for _, d := range s.Devices {
		plain = append(plain, d.Device)
		if d.ID() == strings.ToLower(what) {
			found = append(found, d)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	i, err := pci.Find(plain, what)
	if err != nil {
		exit := workflow.ExitNoMatch
		var many *pci.AmbiguousAddressError
		if errors.As(err, &many) {
			exit = workflow.ExitUsage
		}
		return nil, &workflow.Error{Exit: exit, Code: "no-device", Message: err.Error(), Hint: "see them with: fitout devices --all", Err: err}
	}
	return []workflow.Device{s.Devices[i]}, nil
}

func (a *app) deviceText(d workflow.Device, doc deviceDocument) {
	row := func(k, v string) {
		if v != "" {
			a.printf("  %-12s %s\n", k, v)
		}
	}
	a.printf("%s\n", d.Address)
	row("name", strings.TrimSpace(d.VendorName+" "+d.Name))
	row("vendor:dev", d.ID()+"  subsystem "+d.SubsystemID()+"  revision "+d.Revision)
	row("class", d.ClassCode+" "+d.ClassName)
	row("modalias", d.Modalias)
	row("driver", orDash(d.Driver))
	row("override", d.DriverOverride)
	row("state", finding.StateWord(d.State))
	row("IOMMU group", d.IOMMUGroup)
	row("gives", strings.Join(append(append(append([]string{}, d.NetDevs...), d.BlockDevs...), d.DRMNodes...), " "))
	for _, u := range doc.InUse {
		row("in use", u.Text)
		row("", u.Processes())
	}
	row("in use", doc.UsersUnknown)
	for _, c := range d.Candidates {
		row("candidate", c.Module+" ("+c.Source+")")
	}
	row("near miss", strings.Join(d.NearMisses, ", "))
	for _, f := range d.Findings {
		a.findingText(f)
	}
}

func (a *app) findingText(f finding.Finding) {
	a.printf("  %-5s %s: %s\n", f.Severity, f.Code, f.Message)
	for _, e := range f.Evidence {
		a.printf("          %s\n", e)
	}
	if f.Hint != "" {
		a.printf("        cure: %s\n", f.Hint)
	}
}
