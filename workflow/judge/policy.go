package judge

import (
	"fmt"
	"slices"
	"strings"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// policy is what holds for the target: its own, or what to expect of it.
func (x *examination) policy() *kmod.Policy {
	if x.in.Policy != nil {
		return x.in.Policy
	}
	return x.in.Expected
}

// candidates are the image's modules that may be loaded: signatures are judged
// before the order is made, because the kernel judges them first.
func (x *examination) candidates() []*image.Module {
	var list []*image.Module
	seen := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		m := x.byName[name]
		if m == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, d := range m.Info.Depends {
			if mod, _, _ := x.resolve(d); mod != nil {
				add(d)
			}
		}
		list = append(list, m)
	}
	for _, name := range x.targets {
		add(name)
	}
	return list
}

// checkSignatures asks what the kernel would ask first.
func (x *examination) checkSignatures() {
	mods := x.candidates()
	if len(mods) == 0 {
		return
	}
	before := len(x.findings)
	tainting := 0
	for _, m := range mods {
		tainting += x.checkSignature(m)
	}
	x.mergeNotes(before)
	p := x.policy()
	found := x.findings[before:]
	switch {
	case len(found) > 0 && finding.Worst(found) != finding.Note:
		x.check("signature", Fails, "%s", found[0].Message)
	case p == nil && tainting > 0:
		x.check("signature", NotChecked, "whether kernel %s enforces signatures shows at its boot", x.in.Release)
	case tainting > 0:
		x.check("signature", Passed, "%d module(s) without a signature this kernel knows; %s: loads and taints the kernel (E)", tainting, enforcement(p))
	default:
		x.check("signature", Passed, "signed by a key that this kernel has; %s", enforcement(p))
	}
}

// mergeNotes leaves one note a kind where many modules only taint.
func (x *examination) mergeNotes(from int) {
	first := map[finding.Code]int{}
	kept := x.findings[:from:from]
	for _, f := range x.findings[from:] {
		at, seen := first[f.Code]
		if f.Severity != finding.Note || !seen {
			first[f.Code] = len(kept)
			kept = append(kept, f)
			continue
		}
		kept[at].Evidence = append(kept[at].Evidence, f.Message)
	}
	for _, at := range first {
		kept[at].Evidence = few(kept[at].Evidence)
	}
	x.findings = kept
}

func enforcement(p *kmod.Policy) string {
	switch {
	case p == nil:
		return "enforcement unknown"
	case p.LockedDown():
		return "lockdown is " + p.Lockdown
	case p.SigEnforce && p.SecureBoot != "on":
		return "signatures are enforced (sig_enforce) although Secure Boot is " + secureBoot(p)
	case p.SigEnforce:
		return "signatures are enforced (sig_enforce), Secure Boot is on"
	}
	return "signatures are not enforced"
}

func secureBoot(p *kmod.Policy) string {
	if p.SecureBoot == "" {
		return "unknown"
	}
	return p.SecureBoot
}

func enforced(p *kmod.Policy) bool { return p != nil && (p.SigEnforce || p.LockedDown()) }

// checkSignature judges one module and returns 1 when it would only taint.
func (x *examination) checkSignature(m *image.Module) int {
	if m.Info.SignatureErr != nil {
		x.add(finding.New("signature-damaged", file(m), m.Info.SignatureErr.Detail))
		return 0
	}
	p := x.policy()
	sig := m.Info.Signature
	if sig == nil {
		return x.untrusted(m, finding.New("unsigned", file(m), enforcement(p)), "the module is not signed")
	}
	if sig.KeyID == "" {
		return x.untrusted(m, finding.New("signature-crypto", file(m), sig.Algorithm), "its signature is of a form this kernel does not know")
	}
	trust, key := kmod.NoKey, (*kmod.Key)(nil)
	if p != nil {
		trust, key = p.Judge(sig, x.ownSigner())
	} else if own := x.ownSigner(); own != nil && own.KeyID == sig.KeyID && own.Issuer == sig.Issuer {
		trust = kmod.Trusted
	}
	switch {
	case trust == kmod.Trusted && x.changed(m):
		x.add(finding.New("signature-damaged", file(m), "it does not fit the file's content, which was changed after it was signed"))
		return 0
	case trust == kmod.Trusted:
		return 0
	case !enforced(p) || trust == kmod.NoKey:
		f := finding.New("key-not-enrolled", file(m), signer(sig), enforcement(p)).With(keyEvidence(p, sig)...)
		return x.untrusted(m, f, "its signer's key is not known to this kernel")
	}
	f := finding.New("key-unknown", file(m), signer(sig), "/proc/keys read as root").With(keyEvidence(p, sig)...)
	if key != nil {
		f = finding.New("key-unknown", file(m), signer(sig), "the serial number of the enrolled certificate").
			With(fmt.Sprintf("a key of that name is in %s: %s (%s)", orWord(key.Keyring, "a keyring that is not told"), key.Description, key.ID)).
			With(keyEvidence(p, sig)...)
	}
	x.add(f)
	return 0
}

// changed says that the kernel's own key signed something else than this file.
func (x *examination) changed(m *image.Module) bool {
	if x.in.Kernel == nil {
		return false
	}
	fits, known := x.in.Kernel.Genuine(m.Info)
	return known && !fits
}

func (x *examination) ownSigner() *module.Signature {
	if x.in.Kernel == nil {
		return nil
	}
	return x.in.Kernel.Signer
}

// untrusted is what comes of a module whose signature does not count.
func (x *examination) untrusted(m *image.Module, f finding.Finding, why string) int {
	p := x.policy()
	switch {
	case p != nil && p.LockedDown():
		x.add(finding.New("lockdown", file(m), p.Lockdown, secureBoot(p), why).With(f.Evidence...))
		return 0
	case enforced(p):
		x.add(f.As(finding.Block))
		return 0
	}
	x.add(f.As(finding.Note))
	return 1
}

func signer(s *module.Signature) string {
	if s.Signer == "" {
		return "key id " + s.KeyID
	}
	return fmt.Sprintf("%q (key id %s)", s.Signer, s.KeyID)
}

// keyEvidence sets the key that is needed beside those that are there.
func keyEvidence(p *kmod.Policy, s *module.Signature) []string {
	lines := []string{"needed: " + signer(s)}
	if s.Issuer != "" {
		lines = append(lines, "issuer "+s.Issuer+", serial "+s.Serial)
	}
	if p == nil || !p.KeysKnown {
		return append(lines, "the kernel's keyrings could not be read")
	}
	var names []string
	for _, k := range p.Keys {
		names = append(names, fmt.Sprintf("enrolled: %s (%s, %s)", k.Description, k.ID, k.Keyring))
	}
	return append(lines, few(names)...)
}

// checkPolicy looks at what forbids or marks any load. Of a kernel that does not
// run only what its command line and the host's files say is expected to stay.
func (x *examination) checkPolicy() {
	x.checkTaint()
	p := x.policy()
	if p == nil {
		return
	}
	before := len(x.findings)
	if x.in.Policy != nil {
		x.checkThisBoot(p)
	}
	for _, m := range x.candidates() {
		if slices.Contains(p.Blacklisted, m.Info.Name) {
			x.add(finding.New("blacklisted", m.Info.Name).With("module_blacklist= on the kernel command line"))
		}
		if where := p.ModprobeBlacklisted[m.Info.Name]; where != "" {
			x.add(finding.New("blacklisted-modprobe", m.Info.Name, where))
		}
		if p.AllowUnsupported != nil && !*p.AllowUnsupported && m.Info.Supported != "yes" && m.Info.Supported != "external" {
			x.add(finding.New("unsupported-flag", m.Info.Name).With(fmt.Sprintf("supported=%q in the module", m.Info.Supported), "allow_unsupported_modules is 0"))
		}
	}
	x.checkSELinux(p)
	found := x.findings[before:]
	if i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Severity != finding.Note }); i >= 0 {
		x.check("policy", Fails, "%s", found[i].Message)
		return
	}
	x.check("policy", Passed, "loading is allowed; lockdown %s, Secure Boot %s, SELinux %s", orWord(p.Lockdown, "absent"), secureBoot(p), orWord(p.SELinux, "absent"))
}

// checkThisBoot looks at what holds for this boot and this process only.
func (x *examination) checkThisBoot(p *kmod.Policy) {
	if p.ModulesDisabled {
		x.add(finding.New("modules-disabled"))
	}
	if !p.HasCapability {
		f := finding.New("no-capability")
		if !p.KeysKnown { // an ordinary user who only looks
			f = f.As(finding.Note)
		}
		x.add(f)
	}
}

// checkSELinux says which label the files need, and whether the policy lets
// this process load files of that label at all.
func (x *examination) checkSELinux(p *kmod.Policy) {
	if p.SELinux != "enforcing" {
		return
	}
	if x.in.Policy != nil && p.SELinuxDenies {
		x.add(finding.New("selinux-denied", "this driver").With("the policy was asked: " + p.SELinuxDomain + " may not load what is labelled modules_object_t").
			Cured("run fitout from a login shell or a unit without a confined domain, or have the policy allow module_load to this one"))
		return
	}
	x.add(finding.New("selinux-label", "set and read back when they are staged"))
}

// checkTaint says which letters a load adds (Documentation/admin-guide/
// tainted-kernels.rst), besides E and F, which the checks of signatures and of
// symbol versions name.
func (x *examination) checkTaint() {
	var letters []string
	for _, m := range x.candidates() {
		if !gplCompatible(m.Info.License) && !slices.Contains(letters, "P, proprietary licence") {
			letters = append(letters, "P, proprietary licence")
		}
		if !m.Info.InTree && !slices.Contains(letters, "O, built outside of the kernel tree") {
			letters = append(letters, "O, built outside of the kernel tree")
		}
	}
	if len(letters) > 0 {
		x.add(finding.New("taint", "this driver", strings.Join(letters, "; ")))
	}
}
