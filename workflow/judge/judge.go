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
	// Expected is then what to expect of it: the running kernel's, because
	// Secure Boot and the command line mostly stay; nil: nothing is known.
	Policy   *kmod.Policy
	Expected *kmod.Policy
	// Machine is uname -m of the node; "" leaves the architecture unchecked.
	Machine string
	// Loaded modules; nil for a kernel that is not running.
	Loaded []kmod.LoadedModule
	// Modules to load, [A, B, C] as in the catalog; empty: those whose alias
	// has the devices, and without devices all of them.
	Modules []string
	// Devices are modalias strings of what is to be driven.
	Devices    []string
	Parameters map[string][]string
	Replaces   []string
	// Except are modalias globs the driver does not serve.
	Except []string
	// HostFirmware says whether this kernel would find a firmware file on the
	// host, in its search path and in the packed forms it reads; nil: unknown.
	HostFirmware func(name string) bool
	// InInitramfs says which of the modules named are in this kernel's
	// initramfs, and which file that is ("": none); nil: not looked at.
	InInitramfs func(names []string) (found []string, file string, err error)
	Accepted    map[string]bool // risks accepted
}

// Check is one line of `fitout why`.
type Check struct {
	Name   string `json:"name"`   // "symbol versions"
	Result string `json:"result"` // one of the results below
	Detail string `json:"detail"`
}

// The results of a check.
const (
	Passed     = "ok"
	Differs    = "differ"
	Fails      = "no"
	NotChecked = "not checked"
)

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
	// Build is the release directory of the image that was judged, "" for none.
	Build string `json:"build,omitempty"`
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

// Judge answers for one kernel. Every check that could be made is a line of
// Checks, also after one that blocks: the operator sees all of it at once.
func Judge(in Input) Judgement {
	if in.Inventory == nil {
		in.Inventory = &image.Inventory{}
	}
	wanted := in.Build
	if wanted == "" {
		wanted = in.Release
	}
	if build := findBuild(in.Inventory, wanted); build != nil {
		return examine(in, build).judgement()
	}
	if j, ok := rehomed(in); ok {
		return j
	}
	return noBuild(in)
}

// examine makes every check of one build.
func examine(in Input, build *image.Kernel) *examination {
	x := newExamination(in, build)
	x.checkDirectory()
	x.chooseModules()
	x.checkHardware()
	x.checkSignatures()
	x.checkPolicy()
	x.order()
	x.checkMachine()
	x.checkVermagic()
	x.checkStructSize()
	x.checkSymbols()
	x.checkBuiltin()
	x.checkParameters()
	x.checkFirmware()
	x.checkLoaded()
	x.checkPacking()
	x.checkInitramfs()
	x.checkRelease()
	return x
}
