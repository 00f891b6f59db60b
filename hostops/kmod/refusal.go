package kmod

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
)

// Attempt is one load that the kernel refused, with what is known around it.
type Attempt struct {
	Module, Path string
	Err          error
	// Log holds the kernel's lines of that moment, nil when it cannot be read.
	Log []string
	// Label is the file's SELinux label, "" for none.
	Label string
	// Policy, Info and Tables may be nil; they settle what the log leaves open.
	Policy *Policy
	Info   *module.Info
	Tables *Tables
}

// cause is one reason for an errno. The first row that fits is taken: its
// pattern is in the log, and its condition holds. In the texts $1 and $2 are the
// pattern's groups, {module} and {path} the file, {signer} its signature,
// {label} its SELinux label and {domain} that of this process.
type cause struct {
	errno     unix.Errno
	line      *regexp.Regexp
	when      func(*Attempt) bool
	code      string
	says, fix string
}

var (
	unknownSymbol = regexp.MustCompile(`Unknown symbol (\S+) \(err (?:-2|0)\)`)
	crcSymbol     = regexp.MustCompile(`disagrees about version of symbol (\S+)`)
	avcLoad       = regexp.MustCompile(`avc: +denied +\{ module_load \}.*?tcontext=(\S+)`)
	avcDomain     = regexp.MustCompile(`avc: +denied +\{ module_load \}.*?scontext=(\S+) tcontext=\S*:modules_object_t`)
	avcLockdown   = regexp.MustCompile(`avc: +denied +\{ (?:integrity|confidentiality) \}.*lockdown_reason="([^"]+)"`)
	lockdownLine  = regexp.MustCompile(`Lockdown: .*(unsigned module loading) is restricted`)
	unavailable   = regexp.MustCompile(`Loading of (?:module with unavailable key|\S+) is rejected`)
	vermagicLine  = regexp.MustCompile(`version magic '(.*)' should be '(.*)'`)
	unsignedLine  = regexp.MustCompile(`Loading of unsigned module is rejected`)
)

const (
	otherBuild    = "take the image that was built for this kernel"
	enrol         = "have the vendor's key enrolled (mokutil --import CERT.der, then confirm at the console on the next boot), or take an image signed by a key this kernel has"
	runUnconfined = "run fitout from a login shell or a unit without a confined domain, or have the policy allow module_load to this one"
	signIt        = "take a signed image, or sign the module with a key that this kernel has"
)

// causes tells apart what one errno may mean. Read on Linux 6.1 and 6.12 with
// Debian's kernels, line by line; the rows for ENOKEY, EACCES, BTF, namespaces,
// unsupported crypto and NVIDIA are from kernel/module/{main,signing}.c, the
// SELinux hooks and the vendors' issue trackers.
var causes = []cause{
	{unix.ENOEXEC, vermagicLine, otherRelease, "vermagic-release",
		`it was built for "$1", this kernel is "$2", and without symbol versions the kernel compares the release`, otherBuild},
	{unix.ENOEXEC, vermagicLine, nil, "vermagic-flags",
		`it was built for "$1", this kernel is "$2"`, otherBuild},
	{unix.ENOEXEC, regexp.MustCompile(`section size must match the kernel's built struct module size`), nil, "struct-module-size",
		"it was built for a kernel of another configuration (struct module has another size)", otherBuild},
	{unix.ENOEXEC, crcSymbol, nil, "symbol-crc",
		"it was built against another kernel: the version of symbol $1 differs", otherBuild},
	{unix.ENOEXEC, regexp.MustCompile(`exports duplicate symbol (\S+) \(owned by (\S+)\)`), nil, "symbol-duplicate",
		"it exports $1, which $2 exports already", "unload $2 first"},
	{unix.ENOEXEC, regexp.MustCompile(`Invalid architecture in ELF header: (\d+)`), nil, "wrong-machine",
		"it was built for another processor architecture (ELF machine $1)", "take the image for this node's architecture"},
	{unix.ENOEXEC, regexp.MustCompile(`(Invalid ELF (?:header|section)[^\n]*)`), nil, "not-a-module",
		"the file is damaged or no kernel module ($1)", "fetch the image again and compare its digest"},
	{unix.ENOEXEC, regexp.MustCompile(`(Only \d+ bytes|too short|overflow)`), nil, "not-a-module",
		"the file is cut short ($1)", "fetch the image again and compare its digest"},
	{unix.ENOEXEC, nil, nil, "not-a-module",
		"the kernel cannot read it as a module of its own", "look at the kernel log (dmesg); most likely the image is for another kernel"},

	{unix.EINVAL, crcSymbol, nil, "symbol-crc",
		"it was built against another kernel: the version of symbol $1 differs", otherBuild},
	{unix.EINVAL, regexp.MustCompile(`uses symbol (\S+) from namespace (\S+), but does not import it`), nil, "namespace-missing",
		"it uses $1 of the symbol namespace $2 without importing it, a fault of its build", "report it to the vendor"},
	{unix.EINVAL, regexp.MustCompile(`(\S+): module is already loaded`), nil, "builtin",
		"$1 is built into this kernel, and a module of its name is refused", "boot a kernel that has it as a module"},
	{unix.EINVAL, regexp.MustCompile("`(.*)' invalid for parameter `(.*)'"), nil, "parameter-invalid",
		`the value "$1" is not valid for its parameter $2`, "correct the parameter in the answers"},
	{unix.ERANGE, regexp.MustCompile("`(.*)' invalid for parameter `(.*)'"), nil, "parameter-invalid",
		`the value "$1" is too large or too small for its parameter $2`, "correct the parameter in the answers"},
	{unix.EINVAL, regexp.MustCompile(`failed to validate module \[.*\] BTF`), nil, "btf-mismatch",
		"its BTF type information does not fit this kernel", otherBuild + ", or one without BTF"},
	{unix.EINVAL, regexp.MustCompile(`(decompression failed with status \d+|not an? \S+ compressed module)`), nil, "compression",
		"the kernel cannot unpack it ($1)", "hand it over uncompressed"},
	{unix.EINVAL, nil, func(a *Attempt) bool { return a.Info == nil || a.Info.Size == 0 }, "not-a-module",
		"the file is empty or no kernel module", "fetch the image again and compare its digest"},
	{unix.EINVAL, nil, nil, "load-failed",
		"the kernel found it invalid, or its own start-up code did", "look at the kernel log (dmesg) and at its parameters"},

	{unix.ENOENT, unknownSymbol, needsLoaded, "dependency-missing",
		"it needs $1 of module {provider}, which is not loaded", "load {provider} first"},
	{unix.ENOENT, unknownSymbol, nil, "symbol-missing",
		"it needs the symbol $1, which neither this kernel nor a loaded module has", "load the module that exports it first, or " + otherBuild},
	{unix.ENOENT, nil, nil, "symbol-missing",
		"it needs a symbol that neither this kernel nor a loaded module has", "look for \"Unknown symbol\" in the kernel log (dmesg)"},

	{unix.EKEYREJECTED, unsignedLine, nil, "unsigned",
		"it is not signed, and this kernel enforces signatures", signIt},
	{unix.EKEYREJECTED, unavailable, nil, "key-not-enrolled",
		"{signer}, which is in no keyring of this kernel that counts for modules", enrol},
	{unix.EKEYREJECTED, regexp.MustCompile(`Loading of module with (unsupported crypto)`), nil, "signature-crypto",
		"its signature uses an algorithm this kernel does not have", "take an image signed another way"},
	{unix.EKEYREJECTED, nil, unsignedFile, "unsigned",
		"it is not signed, and this kernel enforces signatures", signIt},
	{unix.EKEYREJECTED, nil, nil, "signature-damaged",
		"its signature does not fit its content: the file was changed after signing, or {signer} is not trusted", "fetch the image again and compare its digest; a stripped module must be signed again"},

	{unix.EBADMSG, nil, nil, "signature-damaged",
		"its signature cannot be read", "fetch the image again and compare its digest; a stripped module must be signed again"},

	{unix.ENOKEY, nil, unsignedFile, "unsigned",
		"it is not signed, and this kernel enforces signatures", signIt},
	{unix.ENOKEY, nil, nil, "key-not-enrolled",
		"{signer}, which is in no keyring of this kernel that counts for modules", enrol},

	{unix.EPERM, lockdownLine, nil, "lockdown",
		"the kernel is locked down and does not accept its signature ({signer})", enrol},
	{unix.EPERM, regexp.MustCompile(`Module (\S+) is blacklisted`), nil, "blacklisted",
		"the kernel was booted with module_blacklist=$1", "take it off the kernel command line and boot again"},
	{unix.EPERM, nil, func(a *Attempt) bool { return a.Policy != nil && a.Policy.ModulesDisabled }, "modules-disabled",
		"loading modules was switched off for this boot (kernel.modules_disabled=1)", "boot again without that setting; it cannot be taken back"},
	{unix.EPERM, nil, func(a *Attempt) bool { return a.Policy != nil && !a.Policy.HasCapability }, "no-capability",
		"this process may not load modules (CAP_SYS_MODULE is missing)", "run it as root on the node itself, not in a container that lacks the capability"},
	{unix.EPERM, nil, func(a *Attempt) bool { return a.Policy != nil && a.Policy.LockedDown() }, "lockdown",
		"the kernel is locked down and does not accept its signature ({signer})", enrol},
	{unix.EPERM, nil, func(a *Attempt) bool {
		return a.Policy != nil && slices.Contains(a.Policy.Blacklisted, module.Normalize(a.Module))
	}, "blacklisted",
		"{module} is on a blacklist of the kernel command line", "take it off the kernel command line and boot again"},
	{unix.EPERM, nil, unsupported, "unsupported-flag",
		"it is not marked supported by the distribution, whose policy (allow_unsupported_modules 0) forbids it", "set allow_unsupported_modules 1 in /etc/modprobe.d/10-unsupported-modules.conf; that ends the distribution's support for this node"},
	{unix.EPERM, nil, func(a *Attempt) bool { return a.Policy != nil && a.Policy.SELinux == "enforcing" }, "selinux-denied",
		"a security module denied it without a line in the log", "look for AVC lines in the audit log (ausearch -m avc -ts recent)"},
	{unix.EPERM, nil, nil, "not-permitted",
		"the kernel does not permit it and gave no reason: not lockdown, not modules_disabled, not a missing capability", "look at the audit log for a seccomp or security module denial"},

	{unix.EACCES, avcDomain, nil, "selinux-denied",
		"SELinux does not let this process ($1) load modules, whatever their label", runUnconfined},
	{unix.EACCES, avcLoad, nil, "selinux-label",
		"SELinux denies loading a file with the label $1 ({path}); module files carry modules_object_t", "chcon -t modules_object_t {path}"},
	{unix.EACCES, avcLockdown, nil, "lockdown",
		"the SELinux policy denies it ($1)", signIt},
	{unix.EACCES, nil, func(a *Attempt) bool { return a.Policy != nil && a.Policy.SELinuxDenies }, "selinux-denied",
		"SELinux does not let this process ({domain}) load modules, whatever their label", runUnconfined},
	{unix.EACCES, nil, func(a *Attempt) bool { return a.Policy != nil && a.Policy.SELinux != "" }, "selinux-label",
		"SELinux denies loading {path}, whose label is {label}; module files carry modules_object_t", "chcon -t modules_object_t {path}, and look at the audit log (ausearch -m avc -ts recent)"},
	{unix.EACCES, nil, nil, "not-permitted",
		"a security module denies loading {path}", "look at the audit log"},

	{unix.EEXIST, nil, nil, "loaded-other-version",
		"a module of that name is loaded already, another build", "unload it first"},
	{unix.EBUSY, nil, nil, "load-in-progress",
		"a module of that name is just being loaded or unloaded", "wait and try again; when it stays so, only a reboot helps"},

	{unix.ENODEV, regexp.MustCompile(`NVRM: The NVIDIA probe routine was not called for (\d+) device`), nil, "wrong-driver",
		"another driver holds $1 of its devices", "take the other driver (nouveau, vfio-pci) off the devices first"},
	{unix.ENODEV, nil, nil, "no-device",
		"its own start-up code found no device that it can drive", "compare the device's ids with the driver's list of supported devices"},
	{unix.EOPNOTSUPP, nil, nil, "compression",
		"this kernel cannot unpack module files", "hand it over uncompressed"},
	{unix.ENOMEM, nil, nil, "no-memory",
		"the kernel has no memory for it", "free memory; on kernels with a small per-CPU or vmalloc area, reboot and load it early"},
	{unix.ETXTBSY, nil, nil, "file-busy",
		"{path} is open for writing", "close it and try again"},
}

func unsignedFile(a *Attempt) bool { return a.Info != nil && a.Info.Signature == nil }

// unsupported says that SUSE's policy stands against a module without their
// mark (MODULE_INFO supported).
func unsupported(a *Attempt) bool {
	return a.Policy != nil && a.Policy.AllowUnsupported != nil && !*a.Policy.AllowUnsupported &&
		a.Info != nil && a.Info.Supported == ""
}

func domain(a *Attempt) string {
	if a.Policy == nil {
		return ""
	}
	return a.Policy.SELinuxDomain
}

// otherRelease says that the two version magics differ in their first word alone.
func otherRelease(a *Attempt) bool {
	for _, line := range a.Log {
		if m := vermagicLine.FindStringSubmatch(line); m != nil {
			_, module, _ := strings.Cut(m[1], " ")
			_, kernel, _ := strings.Cut(m[2], " ")
			return module == kernel
		}
	}
	return false
}

func needsLoaded(a *Attempt) bool { return provider(a) != "" }

// provider is the module that exports the first symbol the log misses.
func provider(a *Attempt) string {
	for _, line := range a.Log {
		if m := unknownSymbol.FindStringSubmatch(line); m != nil {
			name, _ := a.Tables.SymbolProvider(m[1])
			return name
		}
	}
	return ""
}

// Explain turns the kernel's errno into words, from the kernel's own lines,
// the policy and the module file. Errors that are no errno are kept as they are.
func Explain(a Attempt) *Refusal {
	r := &Refusal{Module: a.Module, Path: a.Path, Log: a.Log, Err: a.Err, Code: "load-failed"}
	var errno unix.Errno
	if !errors.As(a.Err, &errno) {
		r.Cause = fmt.Sprint(a.Err)
		return r
	}
	r.Errno = unix.ErrnoName(errno)
	for _, c := range causes {
		if c.errno != errno || (c.when != nil && !c.when(&a)) {
			continue
		}
		groups, ok := c.find(a.Log)
		if !ok {
			continue
		}
		r.Code = c.code
		fill := strings.NewReplacer("{module}", a.Module, "{path}", a.Path, "{signer}", signer(a.Info),
			"{label}", cmp.Or(a.Label, "not set"), "{domain}", domain(&a),
			"{provider}", provider(&a), "$1", at(groups, 1), "$2", at(groups, 2))
		r.Cause, r.Cure = fill.Replace(c.says), fill.Replace(c.fix)
		return r
	}
	r.Cause, r.Cure = errno.Error(), "look at the kernel log (dmesg)"
	return r
}

// find looks for the row's line in the log; a row without one always fits.
func (c *cause) find(log []string) ([]string, bool) {
	if c.line == nil {
		return nil, true
	}
	for _, line := range log {
		if m := c.line.FindStringSubmatch(line); m != nil {
			return m, true
		}
	}
	return nil, false
}

func at(groups []string, i int) string {
	if i < len(groups) {
		return groups[i]
	}
	return ""
}

func signer(info *module.Info) string {
	switch {
	case info == nil:
		return "the signer is not known"
	case info.Signature == nil:
		return "not signed"
	case info.Signature.Signer != "":
		return fmt.Sprintf("signed by %q (key id %s)", info.Signature.Signer, info.Signature.KeyID)
	}
	return "signed by key id " + info.Signature.KeyID
}
