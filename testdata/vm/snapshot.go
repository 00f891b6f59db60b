package vm

import (
	"fmt"
	"strings"
)

// Snapshot keeps the machine as it is now, its processor, memory and disk, under
// a name. The machine needs Config.Snapshots.
func (m *Machine) Snapshot(name string) error { return m.monitor("savevm " + name) }

// Restore takes the machine back to a snapshot.
func (m *Machine) Restore(name string) error {
	if err := m.monitor("loadvm " + name); err != nil {
		return err
	}
	m.agent.forget()
	return nil
}

// monitor runs a command of QEMU's monitor for people, which says nothing when
// all is well.
func (m *Machine) monitor(command string) error {
	said, err := m.qmp.ask("human-monitor-command", map[string]any{"command-line": command})
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(strings.Trim(string(said), `"`)); text != "" {
		return fmt.Errorf("QEMU on %s: %s", command, text)
	}
	return nil
}
