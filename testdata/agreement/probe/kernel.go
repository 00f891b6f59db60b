package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/testdata/agreement"
)

// insert hands a module file to the kernel. A packed one is handed over three
// times: as it is, with the request to unpack it, and unpacked, as fitout and
// modprobe do it. The last answer counts; where nobody can unpack it, the first.
func insert(path, params string, l *agreement.Load) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if module.Sniff(data) == module.Plain {
		return finit(path, params, 0)
	}
	raw := try(path, l.Module, 0)
	l.Raw, l.Kernel = word(raw), word(try(path, l.Module, unix.MODULE_INIT_COMPRESSED_FILE))
	r, _, err := module.Decompress(bytes.NewReader(data))
	if err != nil {
		return raw
	}
	if l.Labelled {
		return insertBeside(path, params, r)
	}
	fd, err := unix.MemfdCreate("module", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	w := os.NewFile(uintptr(fd), "module")
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil {
		return raw
	}
	return finit(fmt.Sprintf("/proc/self/fd/%d", fd), params, 0)
}

// insertBeside unpacks to a labelled file: SELinux gives memory a label of its own.
func insertBeside(path, params string, plain io.Reader) error {
	file := path + ".plain"
	w, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err = io.Copy(w, plain); err == nil {
		err = w.Close()
	}
	if err == nil {
		err = hostops.Live(nil).SetLabel(file, hostops.LabelModule)
	}
	if err != nil {
		return err
	}
	return finit(file, params, 0)
}

// finit is finit_module(2).
func finit(path, params string, flags int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), params, flags)
}

// try loads a packed file and takes the module out at once.
func try(path, name string, flags int) error {
	err := finit(path, "", flags)
	if err == nil {
		remove(name)
	}
	return err
}

// word is an errno's name, "ok" for none.
func word(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func remove(name string) {
	if err := unix.DeleteModule(name, unix.O_NONBLOCK); err != nil {
		fmt.Fprintf(os.Stderr, "probe: unloading %s: %v\n", name, err)
	}
}

// setFirmwarePath writes as the kernel wants it: one write, no line end.
func setFirmwarePath(dir string) {
	f, err := os.OpenFile("/sys/module/firmware_class/parameters/path", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(dir)
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe: setting the firmware path:", err)
	}
}
