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

// The choices (DESIGN section 3).
const (
	LoadNow        When = "load-now"
	AtBoot         When = "at-boot"
	Persist        When = "persist"
	LoadNowAtBoot  When = "load-now+at-boot"
	LoadNowPersist When = "load-now+persist"
	Leave          When = "leave"
)

// Answers is the file.
type Answers struct {
	APIVersion   string    `yaml:"apiVersion" json:"apiVersion"`
	Kind         string    `yaml:"kind" json:"kind"`
	Metadata     Metadata  `yaml:"metadata,omitempty" json:"metadata,omitempty"`
	Maintenance  string    `yaml:"maintenance,omitempty" json:"maintenance,omitempty"`   // required | enter | skip
	OnUnanswered string    `yaml:"onUnanswered,omitempty" json:"onUnanswered,omitempty"` // leave | fail
	NodeBound    bool      `yaml:"nodeBound,omitempty" json:"nodeBound,omitempty"`
	Devices      []Rule    `yaml:"devices,omitempty" json:"devices,omitempty"`
	Drivers      []Extra   `yaml:"drivers,omitempty" json:"drivers,omitempty"`
	Licences     []Licence `yaml:"licences,omitempty" json:"licences,omitempty"`
	AcceptRisks  []string  `yaml:"acceptRisks,omitempty" json:"acceptRisks,omitempty"`
	Limits       Limits    `yaml:"limits,omitempty" json:"limits,omitempty"`
	Secrets      Secrets   `yaml:"secrets,omitempty" json:"secrets,omitempty"`
}

// Metadata names the file.
type Metadata struct {
	Name    string `yaml:"name,omitempty" json:"name,omitempty"`
	SavedBy string `yaml:"savedBy,omitempty" json:"savedBy,omitempty"`
}

// Rule says what to do with the devices it matches. First match wins.
type Rule struct {
	Match           Match               `yaml:"match" json:"match"`
	Driver          string              `yaml:"driver,omitempty" json:"driver,omitempty"` // a catalog entry
	Image           *Image              `yaml:"image,omitempty" json:"image,omitempty"`   // or an image alone
	Pins            map[string]string   `yaml:"pins,omitempty" json:"pins,omitempty"`     // kernel release → digest
	When            When                `yaml:"when" json:"when"`
	PersistIn       string              `yaml:"persistIn,omitempty" json:"persistIn,omitempty"`             // auto | side-tree | os-image
	OnMissingModule string              `yaml:"onMissingModule,omitempty" json:"onMissingModule,omitempty"` // stop | continue
	Parameters      map[string][]string `yaml:"parameters,omitempty" json:"parameters,omitempty"`
	Except          *Except             `yaml:"except,omitempty" json:"except,omitempty"`
}

// Match is by what a device is. Globs are allowed in id and subsystem.
type Match struct {
	ID        string `yaml:"id,omitempty" json:"id,omitempty"`
	Subsystem string `yaml:"subsystem,omitempty" json:"subsystem,omitempty"`
	Class     string `yaml:"class,omitempty" json:"class,omitempty"` // prefix of the class code
	Count     *Count `yaml:"count,omitempty" json:"count,omitempty"`
}

// Count bounds how many devices must match; nil: at least one.
type Count struct {
	Min int  `yaml:"min" json:"min"`
	Max *int `yaml:"max,omitempty" json:"max,omitempty"`
}

// Except leaves some of several equal cards alone; it binds the file to a node.
type Except struct {
	Slots []string `yaml:"slots" json:"slots"`
}

// Image names an image without a catalog entry.
type Image struct {
	Reference string `yaml:"reference" json:"reference"`
}

// Extra is a driver that belongs to no device.
type Extra struct {
	Name string `yaml:"name" json:"name"`
	When When   `yaml:"when" json:"when"`
}

// Licence is one acceptance, of one text, by one person.
type Licence struct {
	ID       string    `yaml:"id" json:"id"`
	Digest   string    `yaml:"digest" json:"digest"`
	Accepted bool      `yaml:"accepted" json:"accepted"`
	By       string    `yaml:"by,omitempty" json:"by,omitempty"`
	At       time.Time `yaml:"at,omitempty" json:"at,omitempty"`
}

// Limits bound a run.
type Limits struct {
	Timeout string `yaml:"timeout,omitempty" json:"timeout,omitempty"` // Go duration
	Reboot  string `yaml:"reboot,omitempty" json:"reboot,omitempty"`   // never | ask | if-needed
}

// Secrets are references, never values.
type Secrets struct {
	RegistryAuth *SecretRef `yaml:"registryAuth,omitempty" json:"registryAuth,omitempty"`
}

// SecretRef names a file that holds a secret.
type SecretRef struct {
	File string `yaml:"file" json:"file"`
}
