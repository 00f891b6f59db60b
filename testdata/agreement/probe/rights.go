package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/agreement"
)

// askAs answers a cell in a process of fewer rights, which writes to out.
func askAs(c agreement.Cell, dir string, out *os.File) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread's rights go with it
		done <- func() error {
			if err := drop(c.As); err != nil {
				return err
			}
			cmd := exec.Command("/proc/self/exe", dir, c.Name)
			cmd.Stdout, cmd.Stderr = out, os.Stderr
			return cmd.Run()
		}()
	}()
	return <-done
}

// drop takes rights from what this thread starts.
func drop(as string) error {
	switch as {
	case agreement.NoCapability:
		return unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_MODULE, 0, 0, 0)
	case agreement.Confined:
		return os.WriteFile("/proc/thread-self/attr/exec", []byte("system_u:system_r:confined_t:s0"), 0o644)
	}
	return fmt.Errorf("there is nobody called %s", as)
}

// enforceSELinux loads a policy, in the one write that the kernel wants, and
// enforces it.
func enforceSELinux(policy string) error {
	text, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	if err := unix.Mount("selinuxfs", "/sys/fs/selinux", "selinuxfs", 0, ""); err != nil {
		return fmt.Errorf("mounting selinuxfs (booted with security=selinux?): %w", err)
	}
	if err := os.WriteFile("/sys/fs/selinux/load", text, 0o600); err != nil {
		return fmt.Errorf("loading the SELinux policy: %w", err)
	}
	return os.WriteFile("/sys/fs/selinux/enforce", []byte("1"), 0o644)
}

// unlabelled tries the file with the label that its directory gives it, and
// then has fitout label it.
func (p *prober) unlabelled(l *agreement.Load, k *kmod.Kernel, policy *kmod.Policy) {
	staged := filepath.Join("/var/lib/agreement", filepath.Base(l.Path))
	if err := copyTo(staged, l.Path); err != nil {
		fmt.Fprintln(os.Stderr, "probe: staging:", err)
		return
	}
	l.Path = staged
	if err := p.try(l, agreement.Cell{}, k, policy); err == nil {
		remove(l.Module)
	}
	l.Unlabelled, l.UnlabelledCode, l.Errno, l.Code = l.Errno, l.Code, "", ""
	l.Labelled = true
	if err := p.node.SetLabel(staged, hostops.LabelModule); err != nil {
		fmt.Fprintln(os.Stderr, "probe: labelling:", err)
	}
}

func copyTo(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, in); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

// label is a file's SELinux label, "" where it has none.
func label(file string) string {
	buf := make([]byte, 256)
	size, err := unix.Getxattr(file, "security.selinux", buf)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(buf[:size])
}

// byModprobe asks the host's own modprobe for its own module, in both ways, and
// takes it out again.
func byModprobe(name string) agreement.ByModprobe {
	loads := func(args ...string) bool {
		_ = exec.Command("/usr/sbin/modprobe", append(args, name)...).Run() // it says nothing of what it left out
		_, err := os.Stat("/sys/module/" + strings.ReplaceAll(name, "-", "_"))
		if err == nil {
			remove(name)
		}
		return err == nil
	}
	return agreement.ByModprobe{Asked: true, ForDevice: loads("-b"), ByName: loads()}
}
