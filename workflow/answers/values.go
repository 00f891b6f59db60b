package answers

import (
	"slices"

	"fitout/catalog"
	"fitout/workflow/finding"
)

// choices holds the keys whose values are words, by the key's path in the type,
// with the words in the order they are explained.
var choices = map[string][]string{
	"apiVersion":              {APIVersion},
	"kind":                    {Kind},
	"maintenance":             {"required", "enter", "skip"},
	"onUnanswered":            {"leave", "fail"},
	"devices.when":            {string(LoadNow), string(AtBoot), string(Persist), string(LoadNowAtBoot), string(LoadNowPersist), string(Leave)},
	"devices.persistIn":       {"auto", "side-tree", "os-image"},
	"devices.onMissingModule": {"stop", "continue"},
	"drivers.when":            {string(LoadNow), string(AtBoot), string(Persist), string(LoadNowAtBoot), string(LoadNowPersist)},
	"limits.reboot":           {"never", "ask", "if-needed"},
	"acceptRisks":             RiskNames(),
}

// patterns holds the keys whose values have a form: a regular expression of the
// common part of RE2 and JSON schema, and an example for people.
var patterns = map[string]struct{ pattern, example string }{
	"osTag":                     {`^[A-Za-z0-9_][A-Za-z0-9._-]*$`, "rhel9"},
	"devices.match.id":          {idPattern, "8086:10d3, with globs 8086:*"},
	"devices.match.subsystem":   {`^(\*|` + idPattern[1:len(idPattern)-1] + `)$`, "8086:a01f, or *"},
	"devices.match.class":       {`^[0-9a-f]{2,6}$`, "0200"},
	"devices.driver":            {catalog.NamePattern, "intel-e1000e"},
	"devices.pins":              {digestPattern, "sha256: and 64 hexadecimal digits"},
	"devices.parameters":        {`^[A-Za-z_][A-Za-z0-9_.-]*(=[^\n\r]*)?$`, "IntMode=1"},
	"drivers.name":              {catalog.NamePattern, "intel-e1000e"},
	"licences.digest":           {digestPattern, "sha256: and 64 hexadecimal digits"},
	"secrets.registryAuth.file": {`^/`, "/root/.docker/config.json"},
}

const (
	// One to four digits, or globs as path.Match knows them; full width without
	// a glob is checked apart.
	idPattern     = `^([0-9a-f?*]|\[[0-9a-f-]+\]){1,4}:([0-9a-f?*]|\[[0-9a-f-]+\]){1,4}$`
	digestPattern = `^sha256:[0-9a-f]{64}$`
)

// RiskNames lists the risks that can be accepted, sorted.
func RiskNames() []string {
	var names []string
	for _, r := range finding.Risks {
		names = append(names, r.Name)
	}
	return names
}

// IsRisk says whether there is a risk of that name.
func IsRisk(name string) bool { return slices.Contains(RiskNames(), name) }
