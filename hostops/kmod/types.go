// Package kmod answers what a given kernel would say to a module, and says it:
// the kernel's own tables (aliases, dependencies, built-ins), its symbol
// versions, its keys and policy; loading, unloading and the kernel log of that
// moment.
package kmod

import (
	"fitout/catalog/module"
	"fitout/hostops"
)

// Kernel is one kernel as its files describe it, running or not.
type Kernel struct {
	// Release is the directory's name below lib/modules.
	Release string
	// Dir is the node path of that directory ("/usr/lib/modules/6.1.0-57-amd64",
	// or below another OS root).
	Dir string
	// Vermagic is read from its own modules, "" when it has none on disk.
	Vermagic string
	// StructModuleSize in bytes, 0 when unknown.
	StructModuleSize uint64
	// ModuleLayout is the CRC that its own modules carry for module_layout, 0
	// when they carry none (a kernel without symbol versions).
	ModuleLayout uint32
	// Signer signed its own modules, nil when they are not signed. Its key is
	// built into the kernel; names repeat between builds, serials do not.
	Signer *module.Signature
	// Sample is the node path of the module that these facts were read from.
	Sample string
	// Tables are its indexes; Symbols its exports with versions. Both read
	// their files when first asked.
	Tables  *Tables
	Symbols *Symbols
	// Exported lists what the running kernel itself says it exports, versions
	// not among it ([Exported]); nil for other kernels.
	Exported func() map[string]bool
	// Reads says which module compressions this kernel itself can read.
	// Empty: none (fitout decompresses before it hands over).
	Reads []module.Compression

	packed bool // its modules are compressed
	node   *hostops.Node
	image  *bootImage
	config func() []byte // its build's configuration, see Config
}

// Origin says where symbol versions were read.
type Origin string

// Where symbol versions come from, best first.
const (
	FromSymvers Origin = "symvers"   // symvers.gz|xz|zst, Module.symvers
	FromImage   Origin = "vmlinuz"   // the image that boots, and the kernel's own modules
	FromModules Origin = "harvested" // imports and exports of the kernel's own modules
	FromNowhere Origin = ""
)

// Symbol is one exported symbol of a kernel or of its modules.
type Symbol struct {
	CRC    uint32
	HasCRC bool
	// TermsKnown is false when only an importer's record of the symbol was
	// seen: then GPLOnly and Namespace say nothing.
	TermsKnown bool
	GPLOnly    bool
	Namespace  string
	// Module exports it; "vmlinux" for the kernel itself, "" when unknown.
	Module string
}

// Candidate is a module whose alias list has a modalias.
type Candidate struct {
	Module  string // normalised
	Path    string // node path; "" when built in
	Builtin bool
}

// Policy is what the running kernel, its boot and its security modules say
// about loading modules.
type Policy struct {
	SigEnforce      bool
	Lockdown        string // "none", "integrity", "confidentiality", "" when not built in
	SecureBoot      string // "on", "off", "no-efi", "unknown"
	ModulesDisabled bool
	HasCapability   bool   // CAP_SYS_MODULE in the effective set
	SELinux         string // "enforcing", "permissive", "" when absent
	// SELinuxDomain is this process's own context; SELinuxDenies says that the
	// policy forbids it to load even what is labelled as a module.
	SELinuxDomain string
	SELinuxDenies bool
	// AllowUnsupported is SUSE's modprobe policy: nil when the host has none.
	AllowUnsupported *bool
	// Keys that count for modules on this kernel, and the keyrings they were
	// read from. KeysKnown is false when they cannot be read (not root).
	Keys      []Key
	KeysKnown bool
	// Blacklisted are the names of module_blacklist=, which the kernel itself
	// refuses; ModprobeBlacklisted those that only modprobe does not load for a
	// device, and where that is said.
	Blacklisted         []string
	ModprobeBlacklisted map[string]string
	// SoftPre and SoftPost are the soft dependencies that the host's modprobe.d
	// adds to a module's own.
	SoftPre, SoftPost map[string][]string
}

// Key is a certificate in a kernel keyring.
type Key struct {
	Keyring string // ".builtin_trusted_keys"; "" when the members are hidden
	// ID is the subject key id, lower-case hex, as /proc/keys shows it.
	ID          string
	Description string // "Debian Secure Boot CA"
}

// Refusal is the kernel's "no" to one module, translated.
type Refusal struct {
	Module string
	Path   string
	// Errno is the name ("EKEYREJECTED"), "" when the call did not come back
	// with one: it crashed, hung or was not made.
	Errno string
	// Code is the finding's stable code ("unsigned", "symbol-crc").
	Code string
	// Cause is a sentence; Cure what the operator can do.
	Cause, Cure string
	// Log holds the kernel's own lines of that moment.
	Log []string
	Err error
}

func (r *Refusal) Error() string {
	s := "loading " + r.Module + ": "
	if r.Errno != "" {
		s += "kernel refused it (" + r.Errno + "): "
	}
	s += r.Cause
	if r.Cure != "" {
		s += "; " + r.Cure
	}
	return s
}

// Hung says that the call has not come back, and holds in the kernel what only a
// reboot gives back.
func (r *Refusal) Hung() bool { return r.Code == "init-hung" }

func (r *Refusal) Unwrap() error { return r.Err }

// FindingCode is the stable code of the reason.
func (r *Refusal) FindingCode() string { return r.Code }

// LoadedModule is a line of /proc/modules with what sysfs adds.
type LoadedModule struct {
	Name       string
	Size       int64
	RefCount   int
	Holders    []string // modules that use it
	State      string   // "Live", "Loading", "Unloading"
	Srcversion string   // "" when the kernel does not show it
	Version    string
	BuildID    string
	Taint      string
}
