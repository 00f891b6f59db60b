package kmod

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// capSysModule is CAP_SYS_MODULE's bit (include/uapi/linux/capability.h).
const capSysModule = 16

// secureBootVar is the UEFI variable: four bytes of attributes, then one that
// is 1 when Secure Boot is on (UEFI 2.10, 3.3 "Globally defined variables").
const secureBootVar = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// ReadPolicy reads what the running kernel says about loading modules. It asks
// for nothing that needs root; what cannot be read stays at "unknown" values.
func ReadPolicy(n *hostops.Node) Policy {
	line, _ := n.ReadString("/proc/cmdline")
	p := Policy{
		SigEnforce:      isTrue(n, "/sys/module/module/parameters/sig_enforce"),
		Lockdown:        lockdown(n),
		SecureBoot:      secureBoot(n),
		ModulesDisabled: isTrue(n, "/proc/sys/kernel/modules_disabled"),
		HasCapability:   hasCapability(n),
		SELinux:         selinux(n),
		Blacklisted:     blacklisted(line, "module_blacklist="),
	}
	config := ModprobeConfig(n)
	p.ModprobeBlacklisted = modprobeBlacklisted(config, line)
	p.SoftPre, p.SoftPost = ConfiguredSoftdeps(config)
	p.AllowUnsupported = allowUnsupported(config, line)
	p.SELinuxDomain, p.SELinuxDenies = selinuxDomain(n)
	p.Keys, p.KeysKnown = readKeys(n)
	return p
}

func isTrue(n *hostops.Node, file string) bool {
	s, _ := n.ReadString(file)
	return s == "Y" || s == "1"
}

// lockdown picks the bracketed word out of "none [integrity] confidentiality".
func lockdown(n *hostops.Node) string {
	s, _ := n.ReadString("/sys/kernel/security/lockdown")
	_, s, _ = strings.Cut(s, "[")
	s, _, _ = strings.Cut(s, "]")
	return s
}

func secureBoot(n *hostops.Node) string {
	if !n.Exists("/sys/firmware/efi") {
		if !n.Exists("/sys") {
			return "unknown"
		}
		return "no-efi"
	}
	b, err := n.ReadFile(secureBootVar)
	switch {
	case err != nil || len(b) < 5:
		return "unknown" // efivarfs is not mounted, or may not be read
	case b[len(b)-1] == 1:
		return "on"
	}
	return "off"
}

func hasCapability(n *hostops.Node) bool {
	b, _ := n.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits&(1<<capSysModule) != 0
		}
	}
	return false
}

// blacklisted collects the names that a word of the kernel command line lists.
func blacklisted(cmdline, key string) []string {
	var names []string
	for _, word := range strings.Fields(cmdline) {
		list, ok := strings.CutPrefix(word, key)
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			if name = module.Normalize(name); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// modprobeBlacklisted are the modules that modprobe does not load for a device,
// with where that is said: on the command line, or in modprobe.d.
func modprobeBlacklisted(config []ConfigLine, cmdline string) map[string]string {
	where := map[string]string{}
	for _, line := range config {
		if line.Words[0] == "blacklist" && where[line.Words[1]] == "" {
			where[line.Words[1]] = line.File
		}
	}
	for _, name := range blacklisted(cmdline, "modprobe.blacklist=") {
		where[name] = "the kernel command line (modprobe.blacklist=)"
	}
	return where
}

// allowUnsupported reads SUSE's policy: the line "allow_unsupported_modules 0|1"
// of modprobe.d and, with precedence, the boot argument that SUSE's kmod reads
// (kmod package, 0009-libkmod-Implement-filtering-of-unsupported-modules). Hosts
// that say nothing about it have no such policy. What fitout's own files say is
// no policy of the host: it goes with the driver it was written for.
func allowUnsupported(config []ConfigLine, cmdline string) *bool {
	var found *bool
	for _, line := range config {
		if line.Words[0] == "allow_unsupported_modules" && !strings.HasPrefix(path.Base(line.File), "fitout-") {
			allow := line.Words[1] == "1"
			found = &allow
		}
	}
	for _, word := range strings.Fields(cmdline) {
		if v, ok := strings.CutPrefix(word, "allow_unsupported_modules="); ok && found != nil {
			allow := v == "1"
			found = &allow
		}
	}
	return found
}

// LockedDown says that the kernel refuses modules without a signature it knows
// whatever sig_enforce says.
func (p *Policy) LockedDown() bool {
	return p.Lockdown == "integrity" || p.Lockdown == "confidentiality"
}

// Trust is what can be said of a signature before the kernel is asked.
type Trust string

// The answers. Keyrings show a key's subject key id; most module signatures
// name their key by issuer and serial, so a name that fits is only likely.
const (
	Trusted    Trust = "trusted"     // the very key is in a keyring that counts
	LikelyKey  Trust = "likely"      // a key of that name is there
	NoKey      Trust = "no-key"      // no key of that id or name
	KeysHidden Trust = "keys-hidden" // the keyrings cannot be read
)

// Judge compares a signature with the running kernel's keys. own signed the
// kernel's own modules (nil when unknown): its key is built in, so the same
// issuer and serial are trusted.
func (p *Policy) Judge(sig, own *module.Signature) (Trust, *Key) {
	if sig == nil {
		return NoKey, nil
	}
	if own != nil && sig.KeyID == own.KeyID && sig.Serial == own.Serial && sig.Issuer == own.Issuer {
		return Trusted, &Key{Keyring: ".builtin_trusted_keys", ID: own.KeyID, Description: own.Signer}
	}
	if !p.KeysKnown {
		return KeysHidden, nil
	}
	for i, k := range p.Keys {
		if k.ID == "" || (k.ID != sig.KeyID && k.ID != sig.Serial) {
			continue
		}
		if k.Keyring == "" {
			return LikelyKey, &p.Keys[i] // it is there, in which keyring is hidden
		}
		return Trusted, &p.Keys[i]
	}
	// The kernel's own build key has the same name in every build: a name
	// proves nothing there.
	if own != nil && sig.Signer == own.Signer {
		return NoKey, nil
	}
	for i, k := range p.Keys {
		if sig.Signer != "" && k.Description == sig.Signer {
			return LikelyKey, &p.Keys[i]
		}
	}
	return NoKey, nil
}
