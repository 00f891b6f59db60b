package host

import (
	"fmt"
	"path"

	"fitout/hostops"
)

const bootUnit = "fitout-drivers.service"

// unitTexts are the boot unit and the link that enables it. It runs before the
// network is set up and before sysinit.target is reached, so that whatever
// waits for a card's network or disk finds the driver there. It is wanted, not
// required: when it fails, the boot goes on and the failure is seen.
func unitTexts(l Layout) []TextFile {
	if l.UnitDir == "" {
		return nil
	}
	text := fmt.Sprintf(`# Made by fitout.
[Unit]
Description=Load kept drivers and report those that have no build for this kernel
DefaultDependencies=no
RequiresMountsFor=%[1]s
After=local-fs.target systemd-udevd.service
Before=sysinit.target network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%[2]s hook boot --state %[1]s
TimeoutStartSec=120

[Install]
WantedBy=sysinit.target
`, l.State, l.bin())
	return append([]TextFile{{Path: path.Join(l.UnitDir, bootUnit), Content: text, Mode: 0o644}},
		enable(l, bootUnit, "sysinit.target"))
}

// enable is the link that `systemctl enable` makes.
func enable(l Layout, unit, target string) TextFile {
	return TextFile{Path: path.Join(l.UnitDir, target+".wants", unit), Link: "../" + unit}
}

// gateTexts are the files that put fitout at the family's point of no return.
func gateTexts(n *hostops.Node, l Layout) []TextFile {
	switch l.Gate {
	case "kernel-hooks":
		return kernelHooks(l)
	case "ostree-finalize":
		return ostreeTexts(n, l, true)
	case "ostree-advice":
		return ostreeTexts(n, l, false)
	case "elemental", "elemental-hold":
		return imageTexts(l)
	}
	return nil
}

// kernelHooks are Debian's kernel hook scripts. preinst.d refuses before
// anything is unpacked and leaves dpkg clean; postinst.d would leave the
// package half configured with the kernel already in /boot, so there fitout
// only makes the indexes and always ends well. Without its program the gate
// cannot read its state, and refuses as it does then, with two ways out.
func kernelHooks(l Layout) []TextFile {
	script := func(dir, missing, end string) TextFile {
		return TextFile{Path: "/etc/kernel/" + dir + "/fitout", Mode: 0o755, Content: fmt.Sprintf(`#!/bin/sh
# Made by fitout. Called by the kernel packages with the release and the image.
bin=%s
if [ ! -x "$bin" ]; then
%s
fi
%s
`, l.bin(), missing, end)}
	}
	allow := path.Join(l.State, "allow")
	refuse := func(what string) string {
		return fmt.Sprintf(`	rm %[1]s/"$1" 2>/dev/null && exit 0
	[ "$DEB_MAINT_PARAMS" = "${DEB_MAINT_PARAMS#install}" ] || { rm -f /lib/modules/"$1"/.fresh-install; rmdir /lib/modules/"$1" 2>/dev/null; }
	echo "fitout: $bin is missing: %[2]s of kernel $1 refused, NOT checked for kept drivers. Fit the drivers again or, if none is wanted, remove $0. To let it through once: mkdir -p %[1]s && touch %[1]s/$1" >&2
	exit 1`, allow, what)
	}
	call := func(verb string) string { return fmt.Sprintf(`"$bin" hook %s --state %s "$1"`, verb, l.State) }
	return []TextFile{
		script("preinst.d", refuse("installation"), "exec "+call("kernel-preinst")),
		script("postinst.d", `	echo "fitout: $bin is missing: kernel $1 has no index of kept drivers" >&2
	exit 0`, call("kernel-postinst")+` || echo "fitout: the index of kept drivers for $1 is made at its first boot" >&2
exit 0`),
		script("prerm.d", refuse("removal"), "exec "+call("kernel-prerm")),
	}
}

const finalizeUnit = "ostree-finalize-staged.service"

// ostreeTexts are the guard in front of the finalisation (systemd stops at the
// first ExecStop that fails), and the watch on staged deployments that tells
// before the shutdown. guard is false where the host's own agent owns updates.
// Without its program the guard lets through, and says so: an agent would stage
// and reboot again and again, and nobody would hold it.
func ostreeTexts(n *hostops.Node, l Layout, guard bool) []TextFile {
	var out []TextFile
	if guard {
		stop := ""
		for _, cmd := range finalizeCommands(n) {
			stop += "ExecStop=" + cmd + "\n"
		}
		out = append(out, TextFile{Path: path.Join(l.UnitDir, finalizeUnit+".d", "10-fitout.conf"), Mode: 0o644,
			Content: fmt.Sprintf(`# Made by fitout: a staged deployment without its drivers is not finalised.
[Service]
ExecStop=
ExecStop=/bin/sh -c 'if [ -x %[1]s ]; then exec %[1]s hook ostree-finalize --state %[2]s; fi; echo "fitout: %[1]s is missing, the staged kernel is NOT checked for drivers" >&2'
%[3]s`, l.bin(), l.State, stop)})
	}
	out = append(out,
		TextFile{Path: path.Join(l.UnitDir, "fitout-staged.path"), Mode: 0o644, Content: `# Made by fitout.
[Unit]
Description=Watch for staged deployments

[Path]
PathChanged=` + StagedDeployment + `

[Install]
WantedBy=multi-user.target
`},
		enable(l, "fitout-staged.path", "multi-user.target"),
		TextFile{Path: path.Join(l.UnitDir, "fitout-staged.service"), Mode: 0o644, Content: fmt.Sprintf(`# Made by fitout.
[Unit]
Description=Look whether the staged kernel has its drivers

[Service]
Type=oneshot
ExecStart=%s hook ostree-staged --state %s
`, l.bin(), l.State)})
	if l.HoldInhibitor {
		out = append(out, TextFile{Path: path.Join(l.UnitDir, holdUnit), Mode: 0o644, Content: fmt.Sprintf(`# Made by fitout: keeps an update agent from rebooting, in a loop, into a kernel that is refused.
[Unit]
Description=Hold reboots while a kernel without its drivers is staged or was refused

[Service]
ExecStart=/usr/bin/systemd-inhibit --what=shutdown --mode=block --who=fitout --why="a kernel without its drivers is staged; see fitout status" %s hook ostree-wait --state %s
Restart=on-failure
RestartSec=10
`, l.bin(), l.State)})
	}
	if guard {
		out = append(out, agentTexts(n, l)...)
	}
	return out
}

const holdUnit = "fitout-hold.service"

// finalizeCommands are the unit's own ExecStop lines, which the drop-in has to
// repeat after clearing them.
func finalizeCommands(n *hostops.Node) []string {
	if out := unitCommands(n, finalizeUnit, "ExecStop"); len(out) > 0 {
		return out
	}
	return []string{"/usr/bin/ostree admin finalize-staged"}
}
