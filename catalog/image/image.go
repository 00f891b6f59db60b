// Package image reads driver images: from registries, layouts and archives,
// of every known layout, streamed, verified and confined.
package image

import (
	"io"

	"fitout/catalog/module"
)

// Inventory is what an image holds.
type Inventory struct {
	// Reference as given; Digest of the manifest of this platform, the one
	// that pins; IndexDigest when the reference named an index.
	Reference   string
	Digest      string
	IndexDigest string
	// Layout is the name of the recognised layout ("kmm", "plain", …).
	Layout string
	// Kernels, sorted by release.
	Kernels  []Kernel
	Firmware []File
	Licences []Licence
	Labels   map[string]string
	// Bytes is the compressed size of all layers, Fetched what was read.
	Bytes, Fetched int64
	// Notes are facts about the image a person should see.
	Notes []string
}

// Kernel is the part of an image that is for one kernel release.
type Kernel struct {
	Release string
	// Modules of this image; links to the host's own tree are not among them.
	Modules []Module
	// HostLinks are links of the tree that point to the host's modules.
	HostLinks []string
}

// Module is a module file of the image.
type Module struct {
	// Path is relative to the extracted image's root.
	Path string
	Info *module.Info
}

// File is a file of the image.
type File struct {
	// Path is relative to the extracted image's root, Name what a firmware
	// request would call it.
	Path, Name string
	Size       int64
}

// Licence is a licence text found in the image.
type Licence struct {
	Path, Digest string // digest "sha256:…" of the text
	Text         string
}

// Progress is told how many bytes of how many have been read.
type Progress func(done, total int64)

var _ io.Reader // placeholder for the streaming side
