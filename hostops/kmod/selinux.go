package kmod

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"fitout/hostops"
)

// selinuxfs is where the kernel shows its SELinux policy.
const selinuxfs = "/sys/fs/selinux"

func selinux(n *hostops.Node) string {
	s, err := n.ReadString(selinuxfs + "/enforce")
	switch {
	case err != nil:
		return ""
	case s == "1":
		return "enforcing"
	}
	return "permissive"
}

// permissiveDomain is the flag of a decision about a domain that is only
// watched (AVD_FLAGS_PERMISSIVE, security/selinux/include/security.h).
const permissiveDomain = 1

// selinuxDomain is this process's own context, and whether the policy denies it
// to load even a file that is labelled as a module. The policy itself is asked,
// as libselinux's security_compute_av does; where it cannot be, nothing is
// known to be denied.
func selinuxDomain(n *hostops.Node) (domain string, denies bool) {
	raw, err := n.ReadString("/proc/self/attr/current")
	domain = strings.TrimRight(raw, "\x00")
	if err != nil || domain == "" || selinux(n) != "enforcing" {
		return domain, false
	}
	class, err := n.ReadString(selinuxfs + "/class/system/index")
	perm, _ := n.ReadString(selinuxfs + "/class/system/perms/module_load")
	bit, perr := strconv.ParseUint(perm, 10, 5)
	if err != nil || perr != nil || bit == 0 { // the policy knows none such: it says what becomes of those
		unknown, _ := n.ReadString(selinuxfs + "/deny_unknown")
		return domain, unknown == "1"
	}
	allowed, flags, err := computeAV(n, domain+" "+hostops.LabelModule+" "+class)
	if err != nil {
		n.Log.Debug("the SELinux policy was not asked", "error", err)
		return domain, false
	}
	return domain, allowed&(1<<(bit-1)) == 0 && flags&permissiveDomain == 0
}

// computeAV asks for a decision: one write of "SOURCE TARGET CLASS", one read
// of "ALLOWED DECIDED AUDITALLOW AUDITDENY SEQUENCE FLAGS" in hexadecimal
// (sel_write_access, security/selinux/selinuxfs.c).
func computeAV(n *hostops.Node, query string) (allowed, flags uint64, err error) {
	if n.Simulated() {
		return 0, 0, fmt.Errorf("%s/access answers on a live node only", selinuxfs)
	}
	f, err := os.OpenFile(n.Path(selinuxfs+"/access"), os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if _, err := f.WriteString(query); err != nil {
		return 0, 0, fmt.Errorf("asking the SELinux policy: %w", err)
	}
	answer := make([]byte, 256)
	size, err := f.Read(answer)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the SELinux policy's answer: %w", err)
	}
	words := strings.Fields(string(answer[:size]))
	if len(words) < 6 {
		return 0, 0, fmt.Errorf("the SELinux policy answers %q", answer[:size])
	}
	if allowed, err = strconv.ParseUint(words[0], 16, 64); err != nil {
		return 0, 0, err
	}
	flags, err = strconv.ParseUint(words[5], 16, 64)
	return allowed, flags, err
}
