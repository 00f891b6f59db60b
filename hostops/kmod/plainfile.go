package kmod

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
	"fitout/hostops"
)

// openPlain opens a module file of the node so that the kernel can read it: as
// it is, or unpacked. Kernels that unpack modules themselves know one format
// and of xz no CRC64, so that is never left to them. done removes what was made.
func openPlain(n *hostops.Node, file string) (f *os.File, done func(), err error) {
	src, err := n.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the module: %w", err)
	}
	plain, kind, err := module.Decompress(src)
	if err != nil {
		_ = src.Close()
		return nil, nil, fmt.Errorf("unpacking %s: %w", file, err)
	}
	if kind == module.Plain {
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			_ = src.Close()
			return nil, nil, fmt.Errorf("opening the module: %w", err)
		}
		return src, func() { _ = src.Close() }, nil
	}
	defer src.Close()
	if selinux(n) != "" && !n.Simulated() {
		return unpackBeside(n, file, plain)
	}
	return unpackInMemory(path.Base(file), plain)
}

func copyLimited(w io.Writer, r io.Reader) error {
	size, err := io.Copy(w, io.LimitReader(r, module.DefaultMaxSize+1))
	if err == nil && size > module.DefaultMaxSize {
		err = fmt.Errorf("more than %d bytes", module.DefaultMaxSize)
	}
	return err
}

// unpackInMemory returns a file that exists in memory only. It is opened again
// for reading, and the writer closed: the kernel refuses files that somebody
// may write to (ETXTBSY).
func unpackInMemory(name string, plain io.Reader) (*os.File, func(), error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking %s in memory: %w", name, err)
	}
	mem := os.NewFile(uintptr(fd), name)
	defer mem.Close()
	if err := copyLimited(mem, plain); err != nil {
		return nil, nil, fmt.Errorf("unpacking %s: %w", name, err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking %s in memory: %w", name, err)
	}
	return f, func() { _ = f.Close() }, nil
}

// unpackBeside returns a labelled file beside the packed one: SELinux judges
// the label of the file that is loaded, and memory has none that it accepts.
func unpackBeside(n *hostops.Node, file string, plain io.Reader) (*os.File, func(), error) {
	w, err := os.CreateTemp(path.Dir(n.Path(file)), ".fitout-*.ko")
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking %s: %w", file, err)
	}
	defer os.Remove(w.Name())
	err = errors.Join(copyLimited(w, plain), w.Close())
	if err == nil {
		err = n.SetLabel(n.NodePath(w.Name()), hostops.LabelModule)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking %s: %w", file, err)
	}
	f, err := os.Open(w.Name())
	if err != nil {
		return nil, nil, fmt.Errorf("unpacking %s: %w", file, err)
	}
	return f, func() { _ = f.Close() }, nil
}
