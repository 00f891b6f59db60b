package host

import (
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"fitout/hostops"
)

// strictBy says what makes this node's toolkit heed a hook's failure, "" when
// nothing does. Harvester calls the toolkit with a configuration directory of
// its own, so there only os-release counts (which the toolkit reads as
// configuration too).
func strictBy(n *hostops.Node, family string, os map[string]string) string {
	if strings.EqualFold(os["STRICT"], "true") {
		return "STRICT=true in /etc/os-release"
	}
	if family == "harvester" {
		return ""
	}
	for _, p := range append([]string{"/etc/elemental/config.yaml"}, n.Glob("/etc/elemental/config.d/*.yaml")...) {
		b, err := n.ReadFile(p)
		if err != nil {
			continue
		}
		var c struct {
			Strict any `yaml:"strict"`
		}
		if yaml.Unmarshal(b, &c) == nil && strings.EqualFold(fmt.Sprint(c.Strict), "true") {
			return "strict in " + p
		}
	}
	return ""
}
