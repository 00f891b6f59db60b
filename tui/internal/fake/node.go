package fake

import (
	"context"
	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/node"
	"fitout/hostops/pci"
	"fitout/workflow"
	"fitout/workflow/finding"
	"fitout/workflow/journal"
	"fitout/workflow/judge"
	"fitout/workflow/plan"
	"fitout/workflow/run"
	"fmt"
	"strings"
	"time"
)

// The kernels of the fake node, and when its runs begin.
const (
	Running = "6.4.0-150600.23.47-default"
	Next    = "6.4.0-150600.23.60-default"
)

// Began is when runs begin.
var Began = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)

// Step is an action made of words.
type Step struct{ Words hostops.Description }

func (s Step) Kind() string                                            { return "words" }
func (s Step) Describe() hostops.Description                           { return s.Words }
func (s Step) Prepare(context.Context, *hostops.Node) error            { return nil }
func (s Step) Do(context.Context, *hostops.Node, hostops.Sink) error   { return nil }
func (s Step) Done(context.Context, *hostops.Node) (bool, error)       { return true, nil }
func (s Step) Undo(context.Context, *hostops.Node, hostops.Sink) error { return nil }

// Steps are those of mock-up B6, for a driver.
func Steps(name string) []plan.Step {
	step := func(id, title, text, undo string, seconds int, bytes int64) plan.Step {
		d := hostops.Description{Title: title, Text: strings.Split(text, "\n"), Estimate: time.Duration(seconds) * time.Second, Bytes: bytes}
		if undo != "" {
			d.Undo = strings.Split(undo, "\n")
		}
		if bytes > 0 {
			d.Into = "/var/lib/fitout"
		}
		return plan.Step{ID: id, Action: Step{d}}
	}
	return []plan.Step{
		step("fetch", "fetch "+name, "GET registry.local:5000/v2/drivers/nvidia/blobs/sha256:9f2c41", "delete the blob", 31, 412_000_000),
		step("stage", "unpack into /run/fitout", "write 214 files below /run/fitout/nvidia", "remove the directory", 19, 0),
		step("unbind", "2 devices from nouveau", "echo 0000:17:00.0 > /sys/bus/pci/drivers/nouveau/unbind\necho 0000:18:00.0 > /sys/bus/pci/drivers/nouveau/unbind", "rebind nouveau", 1, 0),
		step("load", "load nvidia nvidia_uvm nvidia_modeset", "finit_module(nvidia.ko)\nfinit_module(nvidia_uvm.ko)\nfinit_module(nvidia_modeset.ko)", "rmmod in reverse", 4, 0),
		step("keep", "write the upgrade hook", "write /oem/91_fitout.yaml", "restore the backup", 1, 0),
		step("check", "2 devices answer", "look at /sys/bus/pci/devices/*/driver for 5 s", "", 5, 0),
	}
}

var _ workflow.Wizard = (*Engine)(nil)

// New is the fake node; runs are kept below dir.
func New(dir string) *Engine {
	past := []run.Listed{{ID: "2026-1002-01", Summary: journal.Summary{Began: Began.AddDate(0, -1, -28), Outcome: journal.OutcomeDone}, Drivers: []plan.Driver{{Name: "nvidia-open", Version: "575.57.08"}}}}
	return &Engine{Dir: dir, Past: past, Node: survey(), Catalog: drivers(), Images: images(), Unreadable: map[string]error{}}
}

func survey() *workflow.Survey {
	s := &workflow.Survey{
		NodeName: "node-17", CatalogDate: "2026-11-28", SecureBoot: "off",
		Kernels: []host.Kernel{{Release: Running, Roles: []host.Role{host.Running}}, {Release: Next, Roles: []host.Role{host.Next}}},
		Host: host.Facts{Family: "elemental-v2", Title: "SUSE Elemental, toolkit v2", LoadNow: true, SideTree: true, AtBoot: true, Gate: host.BlocksFinalize,
			Price: map[string][]string{"at-boot": {"no reboot needed", "no OS upgrade is stopped"}, "side-tree": {"no reboot needed", "survives reboots"}}},
		Maintenance: node.Maintenance{State: "in-maintenance", MayEnter: true, Why: "cordoned, and no workload pods are left", Evidence: []string{"spec.unschedulable: true"},
			Enter: []string{"kubectl cordon node-17", "kubectl drain node-17 --ignore-daemonsets"}, Leave: []string{"kubectl uncordon node-17"}},
	}
	add := func(n int, name, id, class, driver string, state finding.State, found ...finding.Finding) {
		k := workflow.Kind{ID: id, Subsystem: "10de:16c1", Class: class, Name: name, Driver: driver, State: state}
		for i := 0; i < n; i++ {
			v, d, _ := strings.Cut(id, ":")
			dev := workflow.Device{State: state, Findings: found, Device: pci.Device{
				Address: fmt.Sprintf("0000:%02x:00.0", 0x17+len(s.Devices)), VendorID: v, DeviceID: d, SubsystemVendorID: "10de", SubsystemDeviceID: "16c1",
				ClassCode: class + "00", ClassName: "3D controller", Revision: "a1", Driver: driver, NUMANode: i % 2, IOMMUGroup: "31",
				Modalias: "pci:v0000" + strings.ToUpper(v) + "d0000" + strings.ToUpper(d) + "sv000010DEsd000016C1bc03sc02i00"}}
			k.Devices = append(k.Devices, len(s.Devices))
			s.Devices = append(s.Devices, dev)
		}
		s.Kinds = append(s.Kinds, k)
	}
	add(2, "NVIDIA H100 SXM5 80GB", "10de:2330", "0302", "nouveau", finding.StateWrongDriver,
		finding.Finding{Code: "wrong-driver", Severity: finding.Note, Message: "nouveau binds but has no compute support for this chip", Hint: "choose an image of nvidia-open"})
	add(1, "(unnamed)", "1e3e:0001", "0b40", "", finding.StateNoImage, finding.Finding{Code: "no-image", Severity: finding.Note, Message: "nothing in the catalog fits 1e3e:0001"})
	add(4, "Mellanox® ConnectX-7", "15b3:1021", "0200", "mlx5_core", finding.StateUpdate)
	add(1, "Broadcom MegaRAID 9560", "1000:10e2", "0104", "megaraid_sas", finding.StateOK)
	add(2, "Intel X710 10GbE", "8086:1572", "0200", "i40e", finding.StateOK)
	add(1, "PCI bridge", "8086:2030", "0604", "", finding.StateNotNeeded)
	return s
}

func drivers() []catalog.Driver {
	return []catalog.Driver{
		{Name: "nvidia-open-580", Title: "NVIDIA open kernel modules 580.65.06", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "nvidia-open-575", Title: "NVIDIA open kernel modules 575.57.08", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "nvidia-prop-580", Title: "NVIDIA proprietary 580.65.06", Vendor: "NVIDIA", Match: []string{"10de:2330"}},
		{Name: "mlnx-ofed-24", Title: "Mellanox OFED 24.10", Vendor: "NVIDIA", Match: []string{"15b3:1021"}},
	}
}

// LicenceText is long enough to be read in pages.
var LicenceText = "NVIDIA DRIVER LICENCE AGREEMENT\n\n" + strings.Repeat("1. GRANT OF LICENCE. Subject to the terms of this agreement you may install and use the software on systems that you own or run.\n2. LIMITS. You may not “reverse engineer” the software.\n\n", 40) + "END OF TERMS"

func images() map[string]*workflow.Examined {
	lic := workflow.Licence{ID: "nvidia-driver-2025-01", Digest: "sha256:41d09c7741d09c7741d09c7741d09c7741d09c7741d09c7741d09c7741d09c77", Text: LicenceText}
	judged := func(release string, v finding.Verdict, f ...finding.Finding) judge.Judgement {
		return judge.Judgement{Release: release, Verdict: v, Findings: f, Checks: []judge.Check{
			{Name: "hardware", Result: "ok", Detail: "10de:2330 is in the modules' alias list"},
			{Name: "symbol versions", Result: "ok", Detail: "412 symbols match"},
			{Name: "signature", Result: "ok", Detail: "the key is in the .platform keyring"}}}
	}
	inv := &image.Inventory{Digest: "sha256:9f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e19f2c41e1", Layout: "kmm"}
	block := finding.Finding{Code: "lockdown", Severity: finding.Block, Message: "nvidia.ko would be refused: it is not signed", Hint: "take a signed image", Evidence: []string{"lockdown: integrity"}}
	return map[string]*workflow.Examined{
		"nvidia-open-580": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 412_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.OK)}},
		"nvidia-open-575": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 398_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.NoModule)}},
		"nvidia-prop-580": {Inventories: map[string]*image.Inventory{Running: inv}, Bytes: 455_000_000, Licences: []workflow.Licence{lic},
			Judgements: []judge.Judgement{judged(Running, finding.Blocked, block), judged(Next, finding.Blocked, block)}},
		"mlnx-ofed-24": {Inventories: map[string]*image.Inventory{}, Bytes: 88_000_000,
			Judgements: []judge.Judgement{judged(Running, finding.OKKABI), judged(Next, finding.Unsure)}},
		"oci-archive:/media/usb/x.tar": {Inventories: map[string]*image.Inventory{}, Bytes: 1_000_000,
			Judgements: []judge.Judgement{judged(Running, finding.OK), judged(Next, finding.OK)}},
	}
}
