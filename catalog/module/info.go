// Package module reads a Linux kernel module file: what it is called, what it
// drives, which kernel it was built for, which symbols it needs and gives, and
// who signed it. It knows bytes only: no host, no image, no verdict.
package module

import "debug/elf"

// Compression is how a module file is packed, found by its first bytes.
type Compression string

// The ways Linux packs module files.
const (
	Plain Compression = ""
	Gzip  Compression = "gz"
	XZ    Compression = "xz"
	Zstd  Compression = "zst"
)

// Info is everything a module file says of itself.
type Info struct {
	// Name is the module's name as the kernel shows it (underscores), from
	// .modinfo name=, else from the file's name.
	Name string
	// Vermagic as it stands in the file, the trailing blank included.
	Vermagic                     string
	Version, Srcversion, License string
	// Supported is SUSE's tag ("yes", "external"), "" when absent.
	Supported string
	// InTree is set by the kernel's own build (intree=Y).
	InTree bool
	// Depends holds names as in depends=, normalised to underscores.
	Depends []string
	// SoftPre and SoftPost are all softdep= lines merged, in order.
	SoftPre, SoftPost []string
	// WeakDeps holds weakdep= names.
	WeakDeps []string
	// Aliases are modalias patterns, as depmod would index them.
	Aliases []string
	// Firmware are paths relative to a firmware search directory.
	Firmware []string
	// ImportNS are the symbol namespaces it imports.
	ImportNS   []string
	Parameters []Parameter
	// Imports are undefined symbols, with the CRC the module was built
	// against when it carries one (__versions or __version_ext_crcs).
	Imports []Import
	// Exports are the symbols it offers to others.
	Exports []Export
	// HasCRCs says that the module was built with modversions.
	HasCRCs bool
	// StructModuleSize is the size of .gnu.linkonce.this_module in bytes.
	StructModuleSize uint64
	Machine          elf.Machine
	// BuildID is the GNU build id in lower-case hex, "" when absent.
	BuildID string
	// Signature is nil when none is appended, or when what is appended is
	// damaged: SignatureErr then says how, and a kernel refuses the file.
	// A file cut inside its signature has neither: it reads as unsigned, as
	// the kernel takes it.
	Signature    *Signature
	SignatureErr *SignatureError
	// Packed is how the file was compressed, XZCheck the check type of an xz
	// stream (0 none, 1 CRC32, 4 CRC64, 10 SHA-256), -1 for others.
	Packed  Compression
	XZCheck int
	// Size is the uncompressed size in bytes, the signature included.
	Size int64
}

// Parameter is one module parameter.
type Parameter struct{ Name, Type, Description string }

// Import is a symbol that must be there at load.
type Import struct {
	Name string
	CRC  uint32
	// HasCRC is false when the module records no version for it.
	HasCRC bool
	// Weak symbols may be missing.
	Weak bool
	// VersionOnly entries stand in the version table alone, no code refers to
	// them: the kernel looks at none of them but module_layout. A read without
	// [Symbols] cannot tell and marks module_layout only.
	VersionOnly bool
}

// Export is a symbol that other modules may use.
type Export struct {
	Name      string
	CRC       uint32
	HasCRC    bool
	GPLOnly   bool
	Namespace string
}

// Signature is the appended PKCS#7 signature, parsed but not verified.
type Signature struct {
	// Signer is the signer's common name; "" when the message names a key id
	// only. KeyID is the subject key id or the serial, lower-case hex, whole
	// bytes.
	Signer, KeyID string
	// Issuer and Serial identify the certificate when given.
	Issuer, Serial string
	// Hash is the digest's name ("sha256"), Algorithm the key's ("rsa").
	Hash, Algorithm string
	// Value is the signature proper; Digest what it must be of: the Hash of all
	// that stands before the signature. Digest is nil when Content was not read,
	// and when the signer signed attributes instead, as module signers do not.
	Value, Digest []byte

	attributes bool // signed, instead of the content
}
