package host

import (
	"fmt"
	"path"

	"fitout/hostops"
)

const goOnUnit = "fitout-go-on.service"

// GoOnAfterBoot returns what makes the next boot call the program's hook "go-on",
// which goes on with a run that has restarted the node, and before it the action
// that puts the program where the boot finds it. The error is a *Unsupported
// where nothing that could call it outlives a restart.
func (h *Host) GoOnAfterBoot() (program hostops.Action, files *WriteFiles, oem *PutHook, err error) {
	l := h.layout
	if err := h.allowed("go on after a restart", "side-tree"); err != nil {
		return nil, nil, nil, err
	}
	command := fmt.Sprintf("%s hook go-on --state %s", l.bin(), l.State)
	switch {
	case l.OEM != "":
		text, err := hookFile("fitout: go on", "Made by fitout: a run that has restarted this node goes on; it takes this file away.",
			[]oemStep{{"boot", "fitout go on", "exec " + command + " </dev/null"}})
		if err != nil {
			return nil, nil, nil, err
		}
		oem = &PutHook{OEM: l.OEM, Path: path.Join(l.OEM, "95_fitout_go-on.yaml"), Content: string(text), OneBreaksAll: h.facts.Family != "elemental-v2"}
	case l.UnitDir != "":
		texts := []TextFile{{Path: path.Join(l.UnitDir, goOnUnit), Mode: 0o644, Content: fmt.Sprintf(`# Made by fitout: a run that has restarted this node goes on; it takes this unit away.
[Unit]
Description=Go on with the fitout run that restarted this node
RequiresMountsFor=%s
Wants=network-online.target
After=network-online.target %s

[Service]
Type=oneshot
ExecStart=%s

[Install]
WantedBy=multi-user.target
`, l.State, bootUnit, command)}, enable(l, goOnUnit, "multi-user.target")}
		files = &WriteFiles{Title: "go on after the boot", Files: texts, Reload: true, Dirs: missingDirs(h.n, texts)}
	case h.n.Exists("/etc/local.d"):
		texts := []TextFile{{Path: "/etc/local.d/fitout-go-on.start", Mode: 0o755, Content: "#!/bin/sh\n# Made by fitout: a run that has restarted this node goes on; it takes this file away.\nexec " + command + "\n"}}
		files = &WriteFiles{Title: "go on after the boot", Files: texts}
	default:
		return nil, nil, nil, &Unsupported{h.facts.Family, "go on after a restart",
			"nothing was found that would call fitout at boot (systemd, /etc/local.d); restart the node by hand and look with: fitout status"}
	}
	return h.installBinary(), files, oem, nil
}
