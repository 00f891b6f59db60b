package elemental

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Machine runs commands below the root of a node with toolkit v2, in a mount
// namespace of their own, with the toolkit's stand-in as elemental. It plays
// systemd's part for one transient unit. It implements hostops.Runner.
type Machine struct {
	root string
	mu   sync.Mutex
	// unit is the name of the running unit, "" for none; done ends with it.
	unit string
	done chan struct{}
}

// NewMachine puts the stand-in and the programs it needs below root, and an
// active image, number 1, made of image.
func NewMachine(t testing.TB, root, image string) *Machine {
	t.Helper()
	for _, tool := range []string{"/bin/sh", "/usr/bin/flock", "/usr/sbin/debugfs", "/usr/sbin/mke2fs"} {
		CopyProgram(t, root, tool, tool)
	}
	b, err := os.ReadFile(Toolkit(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(root+"/usr/bin/elemental", b, 0o755))
	for _, dir := range []string{"/dev", "/proc", "/sys", "/tmp", "/etc", "/run/initramfs/elemental-state/.snapshots/1"} {
		require.NoError(t, os.MkdirAll(root+dir, 0o755))
	}
	require.NoError(t, os.WriteFile(root+"/dev/null", nil, 0o666))
	state := root + "/run/initramfs/elemental-state"
	out, err := exec.Command("mke2fs", "-q", "-t", "ext2", "-d", image, state+"/.snapshots/1/snapshot.img", "128M").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Symlink("1/snapshot.img", state+"/.snapshots/active"))
	require.NoError(t, os.WriteFile(state+"/state.yaml", []byte("date: \"2026-11-01T00:00:00Z\"\nsnapshotter:\n  type: loopdevice\n  max-snaps: 2\nstate:\n  label: COS_STATE\n  snapshots:\n    \"1\":\n      source: dir:///\n      active: true\n"), 0o644))
	return &Machine{root: root}
}

// Look implements hostops.Runner.
func (m *Machine) Look(name string) bool {
	if name == "systemd-run" || name == "systemctl" {
		return true
	}
	for _, dir := range []string{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"} {
		if _, err := os.Stat(m.root + dir + name); err == nil {
			return true
		}
	}
	return false
}

// Run implements hostops.Runner.
func (m *Machine) Run(ctx context.Context, argv ...string) ([]byte, error) {
	switch argv[0] {
	case "systemd-run":
		return nil, m.start(argv[1:])
	case "systemctl":
		return nil, m.systemctl(argv[1:])
	}
	return m.command(ctx, argv...).CombinedOutput()
}

func (m *Machine) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private", "chroot", m.root}, argv...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	return cmd
}

// start takes the flags of systemd-run(1) that it knows, and no other.
func (m *Machine) start(argv []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	unit := ""
	for len(argv) > 0 && strings.HasPrefix(argv[0], "--") {
		name, value, _ := strings.Cut(argv[0], "=")
		switch name {
		case "--unit":
			unit = value
		case "--quiet", "--collect", "--property", "--description":
		default:
			return fmt.Errorf("systemd-run: unrecognized option %q", name)
		}
		argv = argv[1:]
	}
	if m.unit != "" {
		return fmt.Errorf("Failed to start transient service unit: Unit %s.service was already loaded", m.unit)
	}
	cmd := m.command(context.Background(), argv...)
	if err := cmd.Start(); err != nil {
		return err
	}
	m.unit, m.done = unit, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		m.mu.Lock()
		m.unit = ""
		m.mu.Unlock()
		close(m.done)
	}()
	return nil
}

func (m *Machine) systemctl(argv []string) error {
	if len(argv) != 3 || argv[0] != "is-active" || argv[1] != "--quiet" {
		return fmt.Errorf("systemctl: this stand-in knows is-active --quiet UNIT, not %q", argv)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unit == "" || argv[2] != m.unit+".service" {
		return errors.New("exit status 3")
	}
	return nil
}

// Wait waits for the unit's end.
func (m *Machine) Wait() {
	m.mu.Lock()
	done := m.done
	m.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Active is the path of the image that boots next, on this machine.
func (m *Machine) Active(t testing.TB) string {
	t.Helper()
	dir := m.root + "/run/initramfs/elemental-state/.snapshots"
	to, err := os.Readlink(dir + "/active")
	require.NoError(t, err)
	return filepath.Join(dir, to)
}
