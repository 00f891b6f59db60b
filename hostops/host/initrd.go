package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strconv"

	"fitout/catalog/module"
	"fitout/hostops"
)

// initrdPaths are where the families keep a release's initramfs: Debian,
// dracut's default, ostree (beside the kernel), Elemental.
func initrdPaths(k Kernel) []string {
	return []string{
		path.Join(k.OSRoot, "boot/initrd.img-"+k.Release), path.Join(k.OSRoot, "boot/initramfs-"+k.Release+".img"),
		path.Join(k.OSRoot, "boot/initrd-"+k.Release), path.Join(k.Dir, "initramfs.img"), path.Join(k.Dir, "initrd"),
	}
}

// InInitrd says which of the modules named are in kernel k's initramfs: they
// are loaded before any file of the real root is looked at. file is the
// initramfs that was read, "" when none was found.
func InInitrd(n *hostops.Node, k Kernel, names []string) (found []string, file string, err error) {
	for _, p := range initrdPaths(k) {
		f, err := n.Open(p)
		if err != nil {
			continue
		}
		defer f.Close()
		want := map[string]string{}
		for _, name := range names {
			want[module.Normalize(name)] = name
		}
		err = walkInitrd(bufio.NewReaderSize(f, 64<<10), func(name string) {
			if m, ok := want[module.NameOf(name)]; ok && module.IsModuleFile(name) && !slices.Contains(found, m) {
				found = append(found, m)
			}
		})
		sort.Strings(found)
		if err != nil {
			err = fmt.Errorf("reading the initramfs %s: %w", p, err)
		}
		return found, p, err
	}
	return nil, "", nil
}

// ErrPacking says that an initramfs is packed in a way not read here (lz4,
// lzop).
var ErrPacking = errors.New("packed in a way that is not read here")

// walkInitrd calls each name of an initramfs: cpio archives one after the
// other, zeros between them, the last one usually packed
// (Documentation/driver-api/early-userspace/buffer-format.rst).
func walkInitrd(r *bufio.Reader, each func(name string)) error {
	for {
		b, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b == 0 {
			continue
		}
		if err := r.UnreadByte(); err != nil {
			return err
		}
		head, err := r.Peek(6)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch {
		case bytes.HasPrefix(head, []byte("07070")):
			if err := walkCpio(r, each); err != nil {
				return err
			}
		case module.Sniff(head) != module.Plain:
			plain, _, err := module.Decompress(r)
			if err != nil {
				return err
			}
			return walkInitrd(bufio.NewReaderSize(plain, 64<<10), each)
		default:
			return ErrPacking
		}
	}
}

// cpioHeader is the size of a "newc" header in bytes; file size and name size
// are the 7th and the 12th of its 8-digit hexadecimal fields.
const cpioHeader = 110

// walkCpio reads one archive up to its trailer.
func walkCpio(r *bufio.Reader, each func(name string)) error {
	head := make([]byte, cpioHeader)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return fmt.Errorf("cut short: %w", err)
		}
		size, err := cpioField(head, 6)
		if err != nil {
			return err
		}
		nameSize, err := cpioField(head, 11)
		if err != nil {
			return err
		}
		if nameSize == 0 || nameSize > 4096 {
			return fmt.Errorf("a name of %d bytes", nameSize)
		}
		name := make([]byte, nameSize)
		if _, err := io.ReadFull(r, name); err != nil {
			return err
		}
		text := string(bytes.TrimRight(name, "\x00"))
		skip := pad4(cpioHeader+nameSize) + size + pad4(size)
		if text == "TRAILER!!!" {
			_, err := r.Discard(int(pad4(cpioHeader + nameSize)))
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		each(text)
		if _, err := io.CopyN(io.Discard, r, skip); err != nil {
			return fmt.Errorf("cut short: %w", err)
		}
	}
}

func cpioField(head []byte, i int) (int64, error) {
	if string(head[:5]) != "07070" {
		return 0, fmt.Errorf("not a cpio header")
	}
	return strconv.ParseInt(string(head[6+8*i:14+8*i]), 16, 64)
}

// pad4 is how many bytes lack to a multiple of four.
func pad4(n int64) int64 { return (4 - n%4) % 4 }
