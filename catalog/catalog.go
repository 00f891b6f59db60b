// Package catalog answers which drivers there are and which of them fits: the
// catalog file, its sources, matching by modalias, and the mapping from a
// kernel release to an image reference.
package catalog

// APIVersion and Kind head every catalog file.
const (
	APIVersion = "fitout/v1"
	Kind       = "Catalog"
)

// File is one catalog file.
type File struct {
	APIVersion string   `yaml:"apiVersion" json:"apiVersion"`
	Kind       string   `yaml:"kind" json:"kind"`
	Date       string   `yaml:"date" json:"date"` // YYYY-MM-DD, shown on every screen
	Drivers    []Driver `yaml:"drivers" json:"drivers"`
}

// Driver is one catalog entry.
type Driver struct {
	Name   string `yaml:"name" json:"name"`
	Title  string `yaml:"title,omitempty" json:"title,omitempty"`
	Vendor string `yaml:"vendor,omitempty" json:"vendor,omitempty"`
	// Match holds modalias globs; none: the aliases of the image's own modules.
	Match []string `yaml:"match,omitempty" json:"match,omitempty"`
	// Except holds modalias globs that this driver does not serve although
	// Match has them (devices an open flavour cannot drive).
	Except []string `yaml:"except,omitempty" json:"except,omitempty"`
	// Modules [A, B, C]: A needs B needs C; loaded C, B, A.
	Modules []string `yaml:"modules" json:"modules"`
	// Replaces are in-tree modules that must go first.
	Replaces   []string            `yaml:"replaces,omitempty" json:"replaces,omitempty"`
	Images     []Mapping           `yaml:"images" json:"images"`
	Parameters map[string][]string `yaml:"parameters,omitempty" json:"parameters,omitempty"`
	// Firmware is the path inside the image, "" for none.
	Firmware string `yaml:"firmware,omitempty" json:"firmware,omitempty"`
	// DirName is where lib/modules lies in the image ("" : found).
	DirName string   `yaml:"dirName,omitempty" json:"dirName,omitempty"`
	Licence *Licence `yaml:"licence,omitempty" json:"licence,omitempty"`
	// Unverified entries could not be checked against the live registry; they
	// need the risk unverified-entry.
	Unverified bool `yaml:"unverified,omitempty" json:"unverified,omitempty"`
	// Source is the file it came from; not part of the format.
	Source string `yaml:"-" json:"source,omitempty"`
}

// Mapping says which image serves a kernel. First match wins.
type Mapping struct {
	// Kernel is an RE2 pattern, Literal an exact release; one of them.
	Kernel    string `yaml:"kernel,omitempty" json:"kernel,omitempty"`
	Literal   string `yaml:"literal,omitempty" json:"literal,omitempty"`
	Reference string `yaml:"reference" json:"reference"`
}

// Licence says what must be accepted.
type Licence struct {
	ID string `yaml:"id" json:"id"`
	// File is the path inside the image; Text the text itself where the
	// catalog has it.
	File string `yaml:"file,omitempty" json:"file,omitempty"`
	Text string `yaml:"text,omitempty" json:"text,omitempty"`
}

// Catalog is the merged view of all sources; a later source's entry of the
// same name replaces an earlier one.
type Catalog struct {
	Date    string
	Drivers []Driver
	Sources []string
}
