// Package host knows the families of operating systems: how each keeps a
// driver over reboots and upgrades, which kernels may boot next, and where an
// upgrade can be stopped. One interface, one file a family.
package host

import (
	"context"

	"fitout/hostops"
)

// Role is what a kernel is to the next boots.
type Role string

// The roles.
const (
	Running  Role = "running"
	Next     Role = "next-boot" // installed and the default of the next boot
	Staged   Role = "staged"    // staged, not final yet
	Fallback Role = "fallback"  // rollback or passive entry
)

// Kernel is a kernel that may boot on this node.
type Kernel struct {
	// Release is the name of the directory that holds vmlinuz or, for the
	// running kernel, uname -r. Never from an orphan directory.
	Release string
	// OSRoot is the node path of the root whose lib/modules holds it; "/" for
	// the running OS.
	OSRoot string
	// Dir is the node path of its modules directory.
	Dir   string
	Roles []Role
}

// Strength is how firmly an upgrade can be stopped here.
type Strength string

// The strengths, weakest first.
const (
	NoGate            Strength = "none"
	Advisory          Strength = "advisory"
	BlocksDefaultBoot Strength = "blocks-default-boot"
	BlocksFinalize    Strength = "blocks-finalize"
	BlocksInstall     Strength = "blocks-install"
)

// Facts is what a family can do on this node, and how that is known.
type Facts struct {
	Family string // "debian", "elemental-v2", "harvester", "ostree", "generic", …
	Title  string // for people ("SUSE Elemental, toolkit v2")
	// StateDir is where fitout keeps state over reboots and upgrades.
	StateDir string
	// Evidence lists the files that told, one a line.
	Evidence                           []string
	LoadNow, SideTree, OSImage, AtBoot bool
	Gate                               Strength
	// Refusal is set when the family is recognised and not supported: it
	// names the exact command to use instead.
	Refusal string
	// Price says, for each way of keeping a driver, what it costs: keyed by
	// "side-tree", "os-image", "at-boot".
	Price map[string][]string
}

// Driver is what is to be kept, independent of where it came from.
type Driver struct {
	Name    string
	Version string
	Digest  string
	// Builds are the staged trees, one a kernel release.
	Builds map[string]Build
	// Load is the order to load in, the driver proper last; modules of it that
	// no build brings are the OS's own. Parameters per module.
	Load       []string
	Parameters map[string][]string
	// Aliases are the modalias patterns of Load's modules.
	Aliases map[string][]string
	// Replaces are in-tree modules that must not win.
	Replaces []string
	// OnMissing is "stop" or "continue".
	OnMissing string
	Devices   []string // "8086:10d3", for messages
	// SoftPre and SoftPost are soft dependencies per module, as far as they are
	// known before the files are on the node; what the files say is added.
	SoftPre, SoftPost map[string][]string `json:",omitempty"`
	// AllowUnsupported makes a modprobe that loads only what the distribution
	// supports (SUSE's) load everything, as long as the driver is kept.
	AllowUnsupported bool `json:",omitempty"`
	// Early says that it is needed before the real root's first services (a
	// disk, the boot network): loaded in the earliest stage that can.
	Early bool `json:",omitempty"`
}

// Build is a driver's files for one kernel.
type Build struct {
	Release string
	// Dir is the node path of the directory that holds the module files
	// (store or stage); Modules are paths relative to it. They need not be
	// there before the actions run. In the tree they lie flat and unpacked.
	Dir     string
	Modules []string
	// FirmwareDir is the node path of its firmware, "" for none; Firmware are
	// paths relative to it.
	FirmwareDir string
	Firmware    []string
	// Digest is that of the image it came from when that is not the driver's:
	// the gate found it.
	Digest string `json:",omitempty"`
	// Verdict is what the gate that found it was told of it ("ok-kabi").
	Verdict string `json:",omitempty"`
}

// Family is one kind of operating system.
type Family interface {
	// Facts says what it can do here. Read-only.
	Facts() Facts
	// Layout says where fitout's things lie here.
	Layout() Layout
	// Using names the program that hooks will call: source is copied to
	// <state>/bin/fitout-<version>. Without it, the running program under the
	// first digits of its digest.
	Using(source, version string) Family
	// Kernels lists every kernel that may boot, the running one first.
	Kernels(ctx context.Context) ([]Kernel, error)
	// Persist returns the actions that keep d over reboots and OS upgrades;
	// where is "auto", "side-tree" or "os-image". The error is a *Unsupported
	// where the family cannot.
	Persist(d Driver, where string) ([]hostops.Action, error)
	// AtBoot returns the actions that load d at every boot from the kept
	// tree, with no upgrade gated.
	AtBoot(d Driver) ([]hostops.Action, error)
	// GoOnAfterBoot returns what makes the next boot call `fitout hook go-on`;
	// files and oem are two ways, one of which is set.
	GoOnAfterBoot() (program hostops.Action, files *WriteFiles, oem *PutHook, err error)
	// Remove returns the actions that take driver name out of all of it; last
	// says that no other driver stays.
	Remove(name string, last bool) ([]hostops.Action, error)
	// Rebuild returns the action that builds the OS image anew with the drivers
	// kept for it; the error is a *Unsupported where the family cannot.
	Rebuild() (hostops.Action, error)
}
