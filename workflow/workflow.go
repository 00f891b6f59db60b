// Package workflow turns a look at a node and a set of answers into a plan, and
// a plan into a run. It knows no screen and no flag.
package workflow

import (
	"context"
	"sync"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops"
	"fitout/hostops/host"
	"fitout/hostops/kmod"
	"fitout/hostops/node"
	"fitout/hostops/pci"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
	"fitout/workflow/judge"
	"fitout/workflow/plan"
)

// Engine is the workflow on one node.
type Engine struct {
	Node    *hostops.Node
	Catalog *catalog.Catalog
	// Version of the program, for records.
	Version string
	// PlainHTTP lets registries be read without TLS (risk plain-http).
	PlainHTTP bool
	// OSTag is the OS part of image tags that the answers give, which the screens
	// begin from; "": the node's own.
	OSTag string
	// Locked refuses images that the answers do not pin by digest.
	Locked bool
	// Scratch is a directory of this machine into which images are read instead
	// of the image store, "" for the store: one who may not write below the
	// state directory can still look into an image.
	Scratch string

	mu       sync.Mutex              // of what follows: screens examine images side by side
	kernels  map[string]*kmod.Kernel // opened before, by directory
	logins   []string                // the credentials files that Login wrote
	stateDir string                  // looked for before, "" when not
}

// Survey is what a look at the node found. Making one changes nothing.
type Survey struct {
	NodeName string
	// Kernels that may boot, the running one first.
	Kernels     []host.Kernel
	Host        host.Facts
	Maintenance node.Maintenance
	CatalogDate string
	SecureBoot  string // as kmod.Policy
	Devices     []Device
	// Kinds groups Devices by id and subsystem, worst state first.
	Kinds []Kind
	// Rest groups the functions that Kinds leaves out: bridges and others that
	// need no driver, and virtual functions.
	Rest      []Kind
	Simulated bool
}

// Device is a function with its state.
type Device struct {
	pci.Device
	State      finding.State
	Findings   []finding.Finding
	Candidates []Candidate
	NearMisses []string
}

// Candidate is a module that could drive a device.
type Candidate struct {
	Module string `json:"module"`
	Source string `json:"source"` // "in-tree" or "image"
}

// Kind is a group of equal devices.
type Kind struct {
	// ID "8086:10d3", Subsystem "8086:0000", Class "0200".
	ID, Subsystem, Class string
	Name                 string
	Driver               string // the bound driver, "" for none
	State                finding.State
	Devices              []int // indexes into Survey.Devices
}

// Offer is a catalog driver, or an image given by hand, for a kind.
type Offer struct {
	Driver catalog.Driver
	// References per kernel release; a kernel without one is absent.
	References map[string]string
	// Why it is offered or, for NoImage kernels, why not.
	Why         string
	Recommended bool
	// Ambiguous: another entry matches the device equally well, so that only
	// a person can choose.
	Ambiguous bool

	osTag string // given by the answers, "": as os-release says
}

// Examined is an offer whose image was read and judged.
type Examined struct {
	Offer
	Inventories map[string]*image.Inventory // by kernel release
	Judgements  []judge.Judgement           // one a kernel, in Survey.Kernels order
	// Errors say why a kernel's image could not be read, Stores where it is.
	Errors   map[string]error
	Stores   map[string]string
	Licences []Licence
	Bytes    int64
}

// Licence is a text that must be accepted before its driver is loaded.
type Licence struct {
	ID, Digest, Text string
	Accepted         bool // recorded on this node before
}

// Wizard is what screens need of the engine. *Engine implements it; tests
// implement it with literals.
type Wizard interface {
	Survey(ctx context.Context) (*Survey, error)
	// Offers lists the drivers for a kind, best first. No network.
	Offers(s *Survey, k Kind) []Offer
	// OfferImage makes an offer of a reference or file given by hand.
	OfferImage(s *Survey, k Kind, reference string) Offer
	// Examine reads the offer's images and judges them for every kernel.
	Examine(ctx context.Context, s *Survey, k Kind, o Offer, p image.Progress) (*Examined, error)
	// Plan resolves answers to a plan. Same road as headless.
	Plan(ctx context.Context, a *answers.Answers, p image.Progress) (*plan.Plan, error)
	// Start writes the plan to a new run and starts its runner; returns the id.
	Start(ctx context.Context, p *plan.Plan) (string, error)
	// RunDir is the directory of a run's journal.
	RunDir(run string) string
	// Current is the id of the run in progress, "" for none.
	Current() string
}
