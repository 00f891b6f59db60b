package host

import (
	"strings"

	"fitout/hostops"
)

// osRelease reads os-release(5): /etc first, then /usr/lib.
func osRelease(n *hostops.Node) map[string]string {
	out := map[string]string{}
	b, err := n.ReadFile("/etc/os-release")
	if err != nil {
		b, err = n.ReadFile("/usr/lib/os-release")
	}
	if err != nil {
		return out
	}
	for _, line := range strings.Split(string(b), "\n") {
		k, v, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(k, "#") {
			out[k] = strings.Trim(v, `"'`)
		}
	}
	return out
}

// like says that the distribution is id or calls itself like it.
func like(os map[string]string, ids ...string) bool {
	words := append(strings.Fields(os["ID_LIKE"]), os["ID"])
	for _, w := range words {
		for _, id := range ids {
			if w == id {
				return true
			}
		}
	}
	return false
}
