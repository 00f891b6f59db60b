package vm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fitout/testdata/vm/debian"
)

// Limits of the machine's own doings. They are generous: the host may be busy.
const (
	bootLimit = 8 * time.Minute
	runLimit  = 3 * time.Minute
	stopLimit = time.Minute
	// For a whole system with its services.
	diskBootLimit = 15 * time.Minute
	rebootLimit   = 10 * time.Minute
)

// Machine is a machine that runs. Its methods wait for what they ask for.
type Machine struct {
	// Console is the first serial port.
	Console *Console
	// Boots is how long each boot took until commands could be run.
	Boots []time.Duration

	cfg  Config
	dir  string
	qemu *exec.Cmd
	// exited is closed when QEMU is gone.
	exited chan struct{}
	stderr *tail
	qmp    *qmp
	agent  *agent
}

// Start boots a machine for a test and stops it when the test ends. When the
// test failed, the console's end and the kernel's log are in its output.
func Start(t testing.TB, cfg Config) *Machine {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatalf("making the machine: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the machine's console at the end:\n%s\nand before:\n%s", m.Console.Text(), m.Console.End(40))
			if m.agent != nil {
				log, _ := m.RunFor(20*time.Second, "dmesg | tail -n 40")
				t.Logf("the machine's kernel log:\n%s", log)
			}
		}
		m.Close()
	})
	if cfg.Disk != nil {
		err = m.PowerOn()
	} else {
		err = m.Boot(cfg.Kernel)
	}
	if err != nil {
		t.Fatalf("booting the machine: %v", err)
	}
	t.Logf("machine up after %.1f s", m.Boots[0].Seconds())
	return m
}

// New makes a machine's disks; Boot starts it, Close does away with it.
func New(cfg Config) (*Machine, error) {
	dir, err := os.MkdirTemp("", "vm-")
	if err != nil {
		return nil, err
	}
	if err := cfg.makeDisks(dir); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return &Machine{cfg: cfg, dir: dir, Console: newConsole()}, nil
}

// Boot starts the machine with a kernel that is installed on it, and waits
// until commands can be run. A machine that runs is cut off first.
func (m *Machine) Boot(kernel debian.Kernel) error {
	m.kill()
	root := ""
	if m.cfg.Elemental == "" {
		only, err := closure(m.cfg.kernels(), m.cfg.OnlyModules)
		if err != nil {
			return err
		}
		if root, err = buildRoot(rootSpec{Kernels: m.cfg.kernels(), Remove: m.cfg.RemoveModules, Only: only}); err != nil {
			return err
		}
	}
	initramfs, err := buildInitramfs(kernel)
	if err != nil {
		return err
	}
	return m.start(root, Boot{Kernel: kernel.Vmlinuz(), Initramfs: initramfs})
}

// PowerOn boots a machine that has a disk of its own, as its boot loader says,
// and waits until commands can be run. A machine that runs is cut off first.
func (m *Machine) PowerOn() error {
	m.kill()
	boot, err := m.cfg.Disk.Loader(filepath.Join(m.dir, "disk"), m.dir)
	if err != nil {
		return fmt.Errorf("reading what the disk boots: %w", err)
	}
	return m.start("", boot)
}

// start starts QEMU and waits until the machine is up.
func (m *Machine) start(root string, boot Boot) error {
	for try := 0; ; try++ {
		start := time.Now()
		if err := m.startQEMU(m.cfg.qemuArgs(m.dir, root, boot)); err != nil {
			return err
		}
		// A machine that hangs in its first boot is started once more: it is the
		// emulator then, for nothing that is under test has run.
		err := m.waitUp(start)
		if !errors.Is(err, errNotUp) || try == 1 || len(m.Boots) > 0 {
			return err
		}
		m.kill()
	}
}

// errNotUp says that the machine runs, and did not come up in time.
var errNotUp = errors.New("the machine was not up in time")

// startQEMU starts the process and takes hold of its sockets before the
// machine's first instruction.
func (m *Machine) startQEMU(args []string) error {
	for _, socket := range []string{"qmp", "console", "agent"} {
		os.Remove(filepath.Join(m.dir, socket))
	}
	m.qemu = exec.Command("qemu-system-x86_64", args...)
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	m.stderr = &tail{}
	m.qemu.Stderr, m.qemu.Stdout = m.stderr, m.stderr
	if err := m.qemu.Start(); err != nil {
		return fmt.Errorf("starting QEMU: %w; install qemu-system-x86 (make deps)", err)
	}
	m.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(m.qemu, m.exited)
	conns := map[string]net.Conn{}
	for _, socket := range []string{"qmp", "console", "agent"} {
		conn, err := m.dial(filepath.Join(m.dir, socket))
		if err != nil {
			m.kill()
			return err
		}
		conns[socket] = conn
	}
	m.Console.attach(conns["console"])
	m.agent = newAgent(conns["agent"])
	var err error
	if m.qmp, err = newQMP(conns["qmp"]); err != nil {
		m.kill()
		return err
	}
	return m.qmp.execute("cont")
}

func (m *Machine) dial(socket string) (net.Conn, error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-m.exited:
			return nil, fmt.Errorf("QEMU ended at once: %s", m.stderr)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("connecting to QEMU: %w", err)
		}
	}
}

// waitUp waits for the agent's greeting.
func (m *Machine) waitUp(start time.Time) error {
	limit := bootLimit
	if m.cfg.Disk != nil {
		limit = diskBootLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-m.agent.hello:
		m.Boots = append(m.Boots, time.Since(start))
		return nil
	case <-m.exited:
		return fmt.Errorf("QEMU ended while the machine booted: %s", m.stderr)
	case <-ctx.Done():
		return fmt.Errorf("%w (%s); the end of what its console said:\n%s", errNotUp, limit, m.Console.End(60))
	}
}

// Run runs a shell command as root, without a terminal, and returns what it
// wrote (both streams) and its exit code; -1 when the machine did not answer.
func (m *Machine) Run(cmd string) (out string, code int) { return m.RunFor(runLimit, cmd) }

// RunFor is Run with another limit.
func (m *Machine) RunFor(limit time.Duration, cmd string) (out string, code int) {
	out, code, err := m.agent.run(cmd, limit, m.exited)
	if err != nil {
		return fmt.Sprintf("%s\n[running %q on the machine: %v]", out, cmd, err), -1
	}
	return out, code
}

// WriteFile writes a file on the machine.
func (m *Machine) WriteFile(path, text string) error {
	out, code := m.Run("mkdir -p '" + filepath.Dir(path) + "' && cat >'" + path + "' <<'END-OF-FILE'\n" + strings.TrimSuffix(text, "\n") + "\nEND-OF-FILE")
	if code != 0 {
		return fmt.Errorf("writing %s on the machine: %s", path, out)
	}
	return nil
}

// Reboot restarts the machine's system in order, and waits until it is up.
func (m *Machine) Reboot() error {
	if m.cfg.Disk != nil {
		// An init of its own may end the agent before that has answered.
		m.Run("reboot")
		if err := m.waitOff(rebootLimit); err != nil {
			return err
		}
		return m.PowerOn()
	}
	start := time.Now()
	if out, code := m.Run("reboot"); code != 0 {
		return fmt.Errorf("rebooting: %s", out)
	}
	return m.waitUp(start)
}

// waitOff waits until QEMU is gone.
func (m *Machine) waitOff(limit time.Duration) error {
	select {
	case <-m.exited:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("the machine did not go down within %s; the end of what its console said:\n%s", limit, m.Console.End(40))
	}
}

// Reset presses the reset button: nothing is written any more. It waits until
// the machine is up again.
func (m *Machine) Reset() error {
	start := time.Now()
	if err := m.qmp.execute("system_reset"); err != nil {
		return err
	}
	return m.waitUp(start)
}

// WaitBoot waits until the machine is up after a restart that something on it
// has asked for.
func (m *Machine) WaitBoot() error { return m.waitUp(time.Now()) }

// PowerOff shuts the machine down in order.
func (m *Machine) PowerOff() error {
	if out, code := m.Run("poweroff"); code != 0 {
		return fmt.Errorf("shutting down: %s", out)
	}
	return m.waitOff(stopLimit)
}

// Wait waits until the machine's QEMU is gone.
func (m *Machine) Wait() { <-m.exited }

// Close cuts the machine off and deletes its disks.
func (m *Machine) Close() {
	m.kill()
	os.RemoveAll(m.dir)
}

// kill ends QEMU and the registry connections that it started.
func (m *Machine) kill() {
	if m.exited == nil {
		return
	}
	syscall.Kill(-m.qemu.Process.Pid, syscall.SIGKILL)
	<-m.exited
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
