package host

import (
	"fmt"
	"path"
	"strings"

	"fitout/hostops"
)

// updateAgent is a program that stages an update of an ostree host and reboots
// into it unasked: refused at shutdown, it would do so again and again.
type updateAgent struct {
	// marks are files one of which is there when it is installed.
	marks []string
	// asks says that it asks for inhibitor locks before it finalises
	// (rpm-ostree's finalize-deployment and --reboot do).
	asks bool
	// unit is its service where it asks for none (`bootc upgrade --apply`): the
	// reboot is taken out of its command, and made by fitout where it is right.
	unit string
}

// updateAgents is the table of them: Zincati, and bootc's timer. Sources:
// rpm-ostree's check of inhibitors (pull request 2862), Zincati's update_agent,
// bootc's own unit.
var updateAgents = []updateAgent{
	{asks: true, marks: []string{"/usr/lib/systemd/system/zincati.service", "/usr/libexec/zincati"}},
	{unit: "bootc-fetch-apply-updates.service", marks: []string{"/usr/lib/systemd/system/bootc-fetch-apply-updates.timer"}},
}

// agentsOf lists the agents that a node has.
func agentsOf(n *hostops.Node) []updateAgent {
	var out []updateAgent
	for _, a := range updateAgents {
		for _, m := range a.marks {
			if n.Exists(m) {
				out = append(out, a)
				break
			}
		}
	}
	return out
}

// rebootsByItself says that one of the node's agents is kept from rebooting by
// an inhibitor lock.
func rebootsByItself(n *hostops.Node) bool {
	for _, a := range agentsOf(n) {
		if a.asks {
			return true
		}
	}
	return false
}

// agentTexts take the reboot out of the command of an agent that asks nobody:
// the update is fetched and staged as before, the reboot follows when the staged
// kernel has its drivers. Without fitout's program it follows as it always did.
func agentTexts(n *hostops.Node, l Layout) []TextFile {
	var out []TextFile
	for _, a := range agentsOf(n) {
		text, reboots := "", false
		for _, c := range unitCommands(n, a.unit, "ExecStart") {
			quiet := withoutWord(c, "--apply")
			text += "ExecStart=" + quiet + "\n"
			reboots = reboots || quiet != c
		}
		if !reboots {
			continue
		}
		out = append(out, TextFile{Path: path.Join(l.UnitDir, a.unit+".d", "10-fitout.conf"), Mode: 0o644,
			Content: fmt.Sprintf(`# Made by fitout: the reboot into a staged update follows when its kernel has the kept drivers.
[Service]
ExecStart=
%[3]sExecStartPost=/bin/sh -c 'if [ -x %[1]s ]; then exec %[1]s hook ostree-reboot --state %[2]s; fi; echo "fitout: %[1]s is missing, the staged kernel is NOT checked for drivers" >&2; [ ! -e %[4]s ] || exec systemctl reboot'
`, l.bin(), l.State, text, StagedDeployment)})
	}
	return out
}

// withoutWord takes one word out of a command.
func withoutWord(command, word string) string {
	var out []string
	for _, w := range strings.Fields(command) {
		if w != word {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

// unitCommands are the commands of one kind that a unit of the OS has.
func unitCommands(n *hostops.Node, unit, key string) []string {
	if unit == "" {
		return nil
	}
	text, _ := n.ReadString("/usr/lib/systemd/system/" + unit)
	if text == "" {
		text, _ = n.ReadString("/lib/systemd/system/" + unit)
	}
	var out []string
	for line := range strings.Lines(text) {
		if cmd, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok && cmd != "" {
			out = append(out, cmd)
		}
	}
	return out
}
