// Package plan holds a plan as data: numbered steps, each an action with its
// exact text and undo. A plan is written to the run's directory before it is
// run and read back by the runner, so nothing else is needed to finish or undo
// it.
package plan

import (
	"fitout/hostops"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// Step is an action with its place in a plan.
type Step struct {
	ID     string
	Action hostops.Action
}

// Plan is what will be done, and what was resolved to get there.
type Plan struct {
	Steps []Step
	// Answers is what it was made from, pins filled in.
	Answers *answers.Answers
	// Findings that go with it (risks that were accepted, notes).
	Findings []finding.Finding
	// Risks are the names that must be accepted; Missing those not accepted.
	Risks, Missing []string
	// Drivers resolved, for the record and the result page.
	Drivers []Driver
	// Skipped says, one a line, what is not done and why.
	Skipped []string
	// Restart names the drivers that a restart of the node would bring into use.
	// It could be a step, and the answers say to ask (limits.reboot).
	Restart []string
	// Kernel it was made for; another running kernel refuses it.
	Kernel string
}

// Driver is one driver of a plan, resolved.
type Driver struct {
	Name      string              `json:"name"`
	Version   string              `json:"version"`
	Image     string              `json:"image"`
	Digest    string              `json:"digest"`
	Place     string              `json:"place,omitempty"` // of the driver in its image, as image.Want has it
	OSTag     string              `json:"osTag,omitempty"` // as the answers have it
	When      answers.When        `json:"when"`
	PersistIn string              `json:"persistIn,omitempty"`
	Modules   []string            `json:"modules"` // load order
	Devices   []string            `json:"devices"` // addresses
	DeviceIDs []string            `json:"deviceIds"`
	Kernels   []KernelBuild       `json:"kernels"`
	Params    map[string][]string `json:"parameters,omitempty"`
	OnMissing string              `json:"onMissingModule"`
	// Replaced are modules that were loaded before and had to go: they come
	// back when the driver is removed.
	Replaced []string `json:"replaced,omitempty"`
	// Pulled are modules of the host that were loaded because it needs them.
	Pulled []string `json:"pulled,omitempty"`
	// Risks and Licences (digests) were accepted for it.
	Risks    []string `json:"risks,omitempty"`
	Licences []string `json:"licences,omitempty"`
	// AuthFiles are the files of credentials that its registry was asked with.
	AuthFiles []string `json:"authFiles,omitempty"`
}

// KernelBuild is the driver's build for one kernel and its verdict.
type KernelBuild struct {
	Release string          `json:"release"`
	Role    string          `json:"role"`
	Verdict finding.Verdict `json:"verdict"`
}
