package image

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fitout/catalog/module"
)

// packageDir is what the directory of an unpacked RPM ends in: the modules of
// rpms/kmod-x.rpm lie below rpms/kmod-x.rpm.d.
const packageDir = ".rpm.d"

// packageOf splits the directory of an RPM off a tree's root.
func packageOf(root string) (dir string, ok bool) {
	i := strings.Index(root+"/", packageDir+"/")
	if i < 0 {
		return "", false
	}
	return root[:i+len(packageDir)], true
}

// unpackRPM writes the wanted files, modules and firmware, of a package that passes by, below a
// directory of its own. The package itself is not stored.
func (x *extraction) unpackRPM(name string, r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	pkg, err := readRPM(br)
	if err != nil {
		return passOwn(err, fail(Corrupt, "the package %q cannot be read", name))
	}
	if pkg.format != "cpio" && pkg.format != "" {
		return fail(UnsupportedLayout, "the package %q has a payload of format %q, not cpio", name, pkg.format)
	}
	plain, stop, err := payload(br, pkg.compression, x.img.opts.Limits)
	if err != nil {
		return passOwn(err, fail(Corrupt, "the payload of the package %q cannot be read", name))
	}
	defer stop()
	limited := &ratioReader{r: plain, left: x.img.opts.Limits.Bytes, name: name}
	if err := x.unpackCpio(name, newCpioReader(limited, x.img.opts.Limits)); err != nil {
		return passOwn(err, fail(Corrupt, "the payload of the package %q cannot be read", name))
	}
	return nil
}

// passOwn keeps an error that has a code, and gives own the others as cause.
func passOwn(err error, own *Error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return own.because(err)
}

// ratioReader bounds how much a package may unpack to.
type ratioReader struct {
	r    io.Reader
	left int64
	name string
}

func (b *ratioReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fail(Limit, "the package %q unpacks to more than is allowed (limit bytes)", b.name)
	}
	return n, err
}

func payload(r io.Reader, compression string, lim Limits) (io.Reader, func(), error) {
	nothing := func() {}
	switch compression {
	case "gzip":
		z, err := gzip.NewReader(r)
		return z, nothing, err
	case "bzip2":
		return bzip2.NewReader(r), nothing, nil
	case "xz":
		z, _, err := module.Decompress(r)
		return z, nothing, err
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(max(lim.Window, rpmWindow)))
		if err != nil {
			return nil, nothing, err
		}
		return z, z.Close, nil
	case "":
		return r, nothing, nil
	}
	return nil, nothing, fmt.Errorf("payload compression %q is not known", compression)
}

// rpmWindow is the zstd window of rpmbuild's default level 19.
const rpmWindow = 8 << 20

func (x *extraction) unpackCpio(pkg string, c *cpioReader) error {
	for {
		h, err := c.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		inner, err := cleanName(strings.TrimLeft(h.name, "/"), x.img.opts.Limits)
		if err != nil {
			return fail(CodeOf(err), "in the package %q", pkg).because(err)
		}
		if err := x.countEntry(); err != nil {
			return err
		}
		if err := x.packaged(path.Join(pkg+".d", inner), h, c); err != nil {
			return err
		}
	}
}

// packaged writes one file of a package when it is a module or firmware.
func (x *extraction) packaged(name string, h cpioHeader, r io.Reader) error {
	c := x.sel.classify(name, h.mode&cpioType == cpioLink)
	if at, ok := moduleTree(name); ok && isModule(name) {
		x.found.releases[at.release] = true
	}
	switch {
	case c != tree && c != firmware:
		return nil
	case h.mode&cpioType == cpioLink:
		raw, err := io.ReadAll(io.LimitReader(r, int64(x.img.opts.Limits.Name)))
		if err != nil {
			return err
		}
		return x.packagedLink(name, string(raw), c)
	case h.mode&cpioType != cpioFile:
		return nil
	}
	return x.write(name, h.size, r, c)
}

// packagedLink notes a link of a package. An absolute one to firmware leads to a
// file of the package; one to modules may mean the host's.
func (x *extraction) packagedLink(name, target string, c class) error {
	if pkg, _ := packageOf(name); c == firmware && path.IsAbs(target) {
		up := strings.Count(strings.TrimPrefix(name, pkg+"/"), "/")
		target = path.Join(strings.Repeat("../", up), target)
	}
	if _, ok := linkTarget(name, target); !ok {
		return fail(Hostile, "the link %q points to %q, out of the image", name, target)
	}
	x.links[name] = link{layer: x.layer, target: target, class: c}
	return nil
}

// mergePackages joins the modules that several packages bring for one kernel.
func mergePackages(sets []*moduleSet) ([]*moduleSet, error) {
	var out []*moduleSet
	var first *moduleSet
	for _, s := range sets {
		if _, ok := packageOf(s.root); !ok {
			out = append(out, s)
			continue
		}
		if first == nil {
			first = s
			out = append(out, s)
			continue
		}
		first.files = append(first.files, s.files...)
	}
	return out, nil
}
