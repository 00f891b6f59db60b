package kmod

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fitout/hostops"
)

// moduleKeyrings are the keyrings whose keys count for module signatures:
// kernel/module/signing.c verifies against VERIFY_USE_SECONDARY_KEYRING, which
// is .secondary_trusted_keys with .builtin_trusted_keys and, since 5.18,
// .machine (the machine owner's keys) linked into it.
var moduleKeyrings = []string{".builtin_trusted_keys", ".secondary_trusted_keys", ".machine"}

// platformKeyring lists the systems (ID or ID_LIKE of os-release) whose kernels
// also accept the firmware's keys in .platform for modules, by the patch "KEYS:
// Make use of platform keyring for module signature verify". Mainline does not.
var platformKeyring = []struct{ id, source string }{
	{"debian", "Debian bugs 935945 and 1030200"},
	{"ubuntu", "UBUNTU: SAUCE: (lockdown), same title"},
	{"fedora", "src.fedoraproject.org/rpms/kernel, the patch's origin; RHEL and its rebuilds have ID_LIKE fedora"},
	{"suse", "kernel-source, bsc#1209006, FATE#314508"},
	{"amzn", "amazonlinux kernel 6.1, list of changes"},
}

func usesPlatform(n *hostops.Node) bool {
	ids := osIDs(n)
	for _, row := range platformKeyring {
		if slices.Contains(ids, row.id) {
			return true
		}
	}
	return false
}

// readKeys lists the keys that count for modules. It goes by /proc/keys for
// names and asks keyctl for each keyring's members. known is false when the
// keyrings are not visible: not root, or a recorded node without /proc/keys.
func readKeys(n *hostops.Node) (keys []Key, known bool) {
	text, err := n.ReadFile("/proc/keys")
	if err != nil {
		return nil, false
	}
	rings, all := parseKeys(string(text))
	wanted := slices.Clone(moduleKeyrings)
	if usesPlatform(n) {
		wanted = append(wanted, ".platform")
	}
	for _, name := range wanted {
		serial, ok := rings[name]
		if !ok {
			continue
		}
		known = true
		members, ok := ringMembers(n, serial)
		if !ok {
			return unplaced(all), len(all) > 0
		}
		for _, m := range members {
			if k, ok := all[m]; ok {
				k.Keyring = name
				keys = append(keys, k)
			}
		}
	}
	return keys, known
}

// unplaced is every asymmetric key, when the keyrings' members cannot be read:
// then it is not known which keyring each is in, and Keyring stays "".
func unplaced(all map[int32]Key) []Key {
	var keys []Key
	for _, k := range all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Description+a.ID, b.Description+b.ID) })
	return keys
}

// ringMembers reads the serial numbers that a keyring holds (keyctl(2),
// KEYCTL_READ). A recorded node has no keyrings to ask.
func ringMembers(n *hostops.Node, serial int32) ([]int32, bool) {
	if n.Simulated() {
		return nil, false
	}
	buf := make([]byte, 4*1024)
	size, err := unix.KeyctlBuffer(unix.KEYCTL_READ, int(serial), buf, 0)
	if err != nil || size > len(buf) {
		return nil, false
	}
	var members []int32
	for ; size >= 4; size, buf = size-4, buf[4:] {
		members = append(members, int32(binary.NativeEndian.Uint32(buf)))
	}
	return members, true
}

// keyLine: /proc/keys has a line a key: serial, flags, use count, time left, permissions,
// owner, group, type cut to nine letters, description (proc_keys(5)). A
// keyring's description is "NAME: COUNT", an asymmetric key's is its own, then
// ": " and "X509.rsa" and the end of its id.
var keyLine = regexp.MustCompile(`^([0-9a-f]{1,8}) +\S+ +\d+ +\S+ +[0-9a-f]+ +-?\d+ +-?\d+ +(\S+) +(.*)$`)

// asymmetricKey takes "SUBJECT: HEXID: X509.rsa 1234abcd []" apart. The id is
// the subject key id, or the serial of a certificate without one (kernel,
// crypto/asymmetric_keys/x509_public_key.c, x509_key_preparse).
var asymmetricKey = regexp.MustCompile(`^(.*): ([0-9a-f]+): \S+.*$`)

func parseKeys(text string) (rings map[string]int32, keys map[int32]Key) {
	rings, keys = map[string]int32{}, map[int32]Key{}
	for line := range strings.Lines(text) {
		m := keyLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		serial, err := strconv.ParseUint(m[1], 16, 32)
		if err != nil {
			continue
		}
		switch {
		case m[2] == "keyring":
			if i := strings.LastIndex(m[3], ": "); i > 0 {
				rings[m[3][:i]] = int32(serial)
			}
		case strings.HasPrefix(m[2], "asymmetri"):
			if a := asymmetricKey.FindStringSubmatch(m[3]); a != nil {
				keys[int32(serial)] = Key{ID: a[2], Description: a[1]}
			}
		}
	}
	return rings, keys
}

// osIDs is ID and ID_LIKE of os-release(5).
func osIDs(n *hostops.Node) []string {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		b, err := n.ReadFile(file)
		if err != nil {
			continue
		}
		var ids []string
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if key == "ID" || key == "ID_LIKE" {
				ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
			}
		}
		return ids
	}
	return nil
}
