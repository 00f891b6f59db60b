// Package judge answers what a kernel would say to an image's modules, from
// files alone: checks → findings → verdict. It is pure: everything it looks at
// is in its input.
package judge

import (
	"fitout/catalog/image"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// Input is everything a verdict depends on.
type Input struct {
	// Inventory is the image; Release the kernel to judge for. Build is the
	// release directory of the image to use (re-homed builds differ from
	// Release; "": the same).
	Inventory *image.Inventory
	Release   string
	Build     string
	// Kernel is the target's own view; nil when its files are not at hand.
	Kernel *kmod.Kernel
	// Policy of the running kernel; nil for a kernel that is not running.
	Policy *kmod.Policy
	// Loaded modules; nil for a kernel that is not running.
	Loaded []kmod.LoadedModule
	// Modules to load, [A, B, C] as in the catalog; empty: those whose alias
	// has the devices.
	Modules []string
	// Devices are modalias strings of what is to be driven.
	Devices    []string
	Parameters map[string][]string
	Replaces   []string
	// Except are modalias globs the driver does not serve.
	Except []string
	// FirmwareDirs are the host's firmware files by name, as found in its
	// search path (relative name → true), FirmwareReads the compressed forms
	// this kernel reads.
	HostFirmware func(name string) bool
	Accepted     map[string]bool // risks accepted
}

// Check is one line of `fitout why`.
type Check struct {
	Name   string `json:"name"`   // "symbol versions"
	Result string `json:"result"` // "ok", "differ", "no", "not checked"
	Detail string `json:"detail"`
}

// Judgement is the answer.
type Judgement struct {
	Release  string            `json:"kernel"`
	Verdict  finding.Verdict   `json:"verdict"`
	Findings []finding.Finding `json:"findings"`
	Checks   []Check           `json:"checks"`
	// Load is the order in which modules go in, image and host ones; the
	// plan follows it.
	Load []Load `json:"load"`
	// Risks that must be accepted for it to run.
	Risks []string `json:"risks,omitempty"`
	// Nearest names the closest release the image has, when it has none.
	Nearest string `json:"nearest,omitempty"`
}

// Load is one module to load.
type Load struct {
	Module string `json:"module"`
	// From is "image" or "host"; Path is relative to the image's root, or a
	// node path.
	From string `json:"from"`
	Path string `json:"path"`
	// Loaded already, with the same srcversion.
	Loaded bool `json:"loaded,omitempty"`
}
