// Package answers is the answers file: one struct that is reader, writer and
// schema. The wizard produces one, headless reads one, and both take the same
// road from there.
package answers

import "time"

// APIVersion and Kind head every answers file.
const (
	APIVersion = "fitout/v1"
	Kind       = "Answers"
)

// When says when a driver is loaded and kept.
type When string

// The choices.
const (
	LoadNow        When = "load-now"
	AtBoot         When = "at-boot"
	Persist        When = "persist"
	LoadNowAtBoot  When = "load-now+at-boot"
	LoadNowPersist When = "load-now+persist"
	Leave          When = "leave"
)

// Answers is the file. A field's doc tag is what the schema says of it; which
// values are allowed is in values.go.
type Answers struct {
	APIVersion   string    `yaml:"apiVersion" json:"apiVersion" doc:"Version of this format."`
	Kind         string    `yaml:"kind" json:"kind" doc:"What kind of file this is."`
	Metadata     Metadata  `yaml:"metadata,omitempty" json:"metadata,omitzero" doc:"What the file is called; goes to the history."`
	Maintenance  string    `yaml:"maintenance,omitempty" json:"maintenance,omitempty" doc:"Whether the node must be in maintenance (the default), is cordoned and drained by fitout, or neither (needs the risk not-in-maintenance)."`
	OnUnanswered string    `yaml:"onUnanswered,omitempty" json:"onUnanswered,omitempty" doc:"What to do about a device without a driver that no rule matches; leave is the default."`
	NodeBound    bool      `yaml:"nodeBound,omitempty" json:"nodeBound,omitempty" doc:"The file names slots of one node and is for that node only."`
	OSTag        string    `yaml:"osTag,omitempty" json:"osTag,omitempty" doc:"The OS part of image tags (${OS_TAG}), where the node's own name for its OS is not the publisher's."`
	Devices      []Rule    `yaml:"devices,omitempty" json:"devices,omitempty" doc:"Rules; for each device the first that matches holds."`
	Drivers      []Extra   `yaml:"drivers,omitempty" json:"drivers,omitempty" doc:"Drivers that belong to no device."`
	Licences     []Licence `yaml:"licences,omitempty" json:"licences,omitempty" doc:"Vendors' licences, accepted once for each text."`
	AcceptRisks  []string  `yaml:"acceptRisks,omitempty" json:"acceptRisks,omitempty" doc:"Risks that are taken, each by its name; there is no name for all."`
	Limits       Limits    `yaml:"limits,omitempty" json:"limits,omitzero" doc:"Bounds of a run."`
	Secrets      Secrets   `yaml:"secrets,omitempty" json:"secrets,omitzero" doc:"Where secrets are; never a secret itself."`
}

// Metadata names the file.
type Metadata struct {
	Name    string `yaml:"name,omitempty" json:"name,omitempty" doc:"Free text."`
	SavedBy string `yaml:"savedBy,omitempty" json:"savedBy,omitempty" doc:"The program that wrote the file; not read."`
}

// Rule says what to do with the devices it matches.
type Rule struct {
	Match           Match               `yaml:"match" json:"match" doc:"Which devices, by what they are. All keys that are given must hold."`
	Driver          string              `yaml:"driver,omitempty" json:"driver,omitempty" doc:"A catalog entry, resolved for the kernels of each node; or image."`
	Image           *Image              `yaml:"image,omitempty" json:"image,omitempty" doc:"An image without a catalog entry; or driver."`
	Pins            map[string]string   `yaml:"pins,omitempty" json:"pins,omitempty" doc:"The digest the image was reviewed at, for each kernel release. A tag that has moved is refused; without a pin the tag is followed."`
	When            When                `yaml:"when" json:"when" doc:"When the driver is loaded and whether it stays."`
	PersistIn       string              `yaml:"persistIn,omitempty" json:"persistIn,omitempty" doc:"Where the driver is kept; auto is the default."`
	OnMissingModule string              `yaml:"onMissingModule,omitempty" json:"onMissingModule,omitempty" doc:"What an OS upgrade does when its kernel has no build of the driver; stop is the default."`
	Parameters      map[string][]string `yaml:"parameters,omitempty" json:"parameters,omitempty" doc:"Parameters (name=value) for each module."`
	Except          *Except             `yaml:"except,omitempty" json:"except,omitempty" doc:"Cards that are left alone although they match."`
}

// Match is by what a device is.
type Match struct {
	ID        string `yaml:"id,omitempty" json:"id,omitempty" doc:"vendor:device in hexadecimal, globs allowed."`
	Subsystem string `yaml:"subsystem,omitempty" json:"subsystem,omitempty" doc:"vendor:device of the board, globs allowed."`
	Class     string `yaml:"class,omitempty" json:"class,omitempty" doc:"Beginning of the class code (0200 is Ethernet)."`
	Count     *Count `yaml:"count,omitempty" json:"count,omitempty" doc:"How many devices must match; at least one when left out."`
}

// Count bounds how many devices must match; nil: at least one.
type Count struct {
	Min int  `yaml:"min" json:"min" doc:"At least so many; 0: the node need not have any."`
	Max *int `yaml:"max,omitempty" json:"max,omitempty" doc:"At most so many."`
}

// Except leaves some of several equal cards alone; it binds the file to a node.
type Except struct {
	Slots []string `yaml:"slots" json:"slots" doc:"PCI addresses, full (0000:17:00.0) or, where only one domain has it, without the domain."`
}

// Image names an image without a catalog entry.
type Image struct {
	Reference string `yaml:"reference" json:"reference" doc:"HOST[:PORT]/REPOSITORY:TAG, oci:DIR, oci-archive:FILE, docker-archive:FILE or the path of one."`
}

// Extra is a driver that belongs to no device.
type Extra struct {
	Name string `yaml:"name" json:"name" doc:"A catalog entry."`
	When When   `yaml:"when" json:"when" doc:"When the driver is loaded and whether it stays."`
}

// Licence is one acceptance, of one text, by one person.
type Licence struct {
	ID       string    `yaml:"id" json:"id" doc:"The licence's name in the catalog."`
	Digest   string    `yaml:"digest" json:"digest" doc:"Of the text that was shown."`
	Accepted bool      `yaml:"accepted" json:"accepted" doc:"Whether it was accepted."`
	By       string    `yaml:"by,omitempty" json:"by,omitempty" doc:"Who decided."`
	At       time.Time `yaml:"at,omitempty" json:"at,omitzero" doc:"When."`
	// How it came to this node, one of the words below; not in a file, which comes
	// to other nodes too.
	How string `yaml:"-" json:"how,omitempty"`
}

// How a licence was accepted.
const (
	OnScreen   = "screen"       // typed in the wizard
	InFile     = "answers-file" // as a file of answers says
	FromRecord = "record"       // with the driver, before the record of licences was lost
)

// Limits bound a run.
type Limits struct {
	Timeout string `yaml:"timeout,omitempty" json:"timeout,omitempty" doc:"How long a run may take (30m, 1h30m)."`
	Reboot  string `yaml:"reboot,omitempty" json:"reboot,omitempty" doc:"Whether the run may restart the node as a step, when a driver that it keeps comes into use only then: if-needed; never is the default. ask lets the wizard ask, and is as never without one: the end of the run says that a restart is needed."`
}

// Secrets are references, never values.
type Secrets struct {
	RegistryAuth *SecretRef `yaml:"registryAuth,omitempty" json:"registryAuth,omitempty" doc:"Credentials for registries."`
}

// SecretRef names a file that holds a secret.
type SecretRef struct {
	File string `yaml:"file" json:"file" doc:"Absolute path; the form of docker's config.json or podman's auth.json."`
}

// Default is an answers file that answers nothing: what a wizard starts from.
func Default() *Answers {
	return &Answers{APIVersion: APIVersion, Kind: Kind, Maintenance: "required", OnUnanswered: "leave"}
}
