package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
)

// maxForeign bounds how many files of a foreign firmware directory are linked.
const maxForeign = 20000

// PutFirmware merges a driver's firmware into the one directory that all
// drivers share: the kernel takes a single alternative path. A file of the
// same name and other content, from another driver, is refused. If the host
// has an alternative path of its own, its files are joined by links.
type PutFirmware struct {
	State, Driver string
	// Files are what the builds bring, the union over kernels.
	Files []FirmwareFile
	// Foreign is the path the kernel had, when it is not ours.
	Foreign string
	// Made are the files and links that were not there before, Had those that
	// were, with the same content; Saved the ones that an older version of
	// this driver had otherwise, which Do moves to Aside.
	Made, Had, Saved []OwnFile
	Aside            string
}

// FirmwareFile is one file: From is where it is now, Name what the kernel asks
// for ("vendor/fw.bin"). A packed file (vendor/fw.bin.zst) is unpacked: not
// every kernel reads packed firmware. SHA256 and Size are of the unpacked one.
type FirmwareFile struct {
	Name, From, SHA256 string
	Size               int64
}

// firmwareName is what the kernel asks for when a file of that name is packed
// or not (kernel, firmware_loader: .xz and .zst are tried after the name).
func firmwareName(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(file, ".xz"), ".zst")
}

// open opens the file's content, unpacked.
func (f FirmwareFile) open(n *hostops.Node) (io.Reader, io.Closer, error) {
	file, err := n.Open(f.From)
	if err != nil {
		return nil, nil, err
	}
	if firmwareName(f.From) == f.From {
		return file, file, nil
	}
	r, _, err := module.Decompress(file)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("unpacking %s: %w", f.From, err)
	}
	return r, file, nil
}

func (f FirmwareFile) hash(n *hostops.Node) (string, int64, error) {
	r, c, err := f.open(n)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	return hashReader(r)
}

// Kind implements hostops.Action.
func (a *PutFirmware) Kind() string { return "put-firmware" }

// Describe implements hostops.Action.
func (a *PutFirmware) Describe() hostops.Description {
	dir := firmwareDir(a.State)
	d := hostops.Description{Title: "merge the firmware of " + a.Driver + " into " + dir,
		Estimate: 2 * time.Second, Into: a.State,
		Undo: []string{"remove the files that were not in " + dir + " before"}}
	for _, f := range a.Files {
		d.Text = append(d.Text, fmt.Sprintf("cp %s %s", f.From, path.Join(dir, f.Name)))
		d.Bytes += f.Size
	}
	if a.Foreign != "" {
		d.Text = append(d.Text, "link every file of "+a.Foreign+" (the host's own alternative path) into "+dir)
	}
	return d
}

// Prepare hashes the sources, reads the host's present path, measures room.
func (a *PutFirmware) Prepare(_ context.Context, n *hostops.Node) error {
	a.Made, a.Had, a.Saved = nil, nil, nil
	a.Aside = freshSaved(n, path.Join(savedDir(a.State), "firmware", a.Driver))
	var bytes uint64
	kept, err := readKept(n, a.State)
	if err != nil {
		return err
	}
	for i := range a.Files {
		f := &a.Files[i]
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("firmware name %q of %s leads out of the firmware directory", f.Name, a.Driver)
		}
		sum, size, err := f.hash(n)
		if err != nil {
			return fmt.Errorf("reading firmware %s of %s: %w", f.Name, a.Driver, err)
		}
		f.SHA256, f.Size = sum, size
		own := OwnFile{Path: path.Join(firmwareDir(a.State), f.Name), SHA256: sum}
		switch {
		case !own.there(n):
			a.Made = append(a.Made, own)
			bytes += uint64(size)
		case own.same(n):
			a.Had = append(a.Had, own)
		default:
			if who := otherOwner(kept, own.Path, a.Driver); who != "" {
				return fmt.Errorf("firmware %s: driver %s keeps a file of that name with other content, and the kernel knows one firmware directory; remove %s first", f.Name, who, who)
			}
			a.Saved = append(a.Saved, own)
			bytes += uint64(size)
		}
	}
	if cur, _ := kmod.FirmwarePath(n); cur != "" && cur != firmwareDir(a.State) && !strings.HasPrefix(cur, "/run/fitout") {
		a.Foreign = cur
		if err := a.planLinks(n); err != nil {
			return err
		}
	}
	return needSpace(n, a.State, bytes, uint64(len(a.Files)+8), "")
}

// planLinks lists the links that join the host's own alternative directory.
func (a *PutFirmware) planLinks(n *hostops.Node) error {
	wanted := map[string]bool{}
	for _, f := range a.Files {
		wanted[f.Name] = true
	}
	root, count := n.Path(a.Foreign), 0
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if count++; count > maxForeign {
			return fmt.Errorf("the host's firmware path %s holds more than %d files; clear it (or set it back) before keeping firmware here", a.Foreign, maxForeign)
		}
		rel := filepath.ToSlash(mustRel(root, p))
		own := OwnFile{Path: path.Join(firmwareDir(a.State), rel), Link: path.Join(a.Foreign, rel)}
		if !wanted[rel] && !own.there(n) {
			a.Made = append(a.Made, own)
		}
		return nil
	})
}

// Do copies and links.
func (a *PutFirmware) Do(_ context.Context, n *hostops.Node, out hostops.Sink) error {
	for _, f := range a.Files {
		dst := path.Join(firmwareDir(a.State), f.Name)
		if (OwnFile{Path: dst, SHA256: f.SHA256}).same(n) {
			continue
		}
		if aside := a.aside(f.Name); a.saves(dst) && !n.Exists(aside) {
			if err := errors.Join(moveFile(n, dst, aside), forgetOlder(n, a.Aside)); err != nil {
				return err
			}
		}
		r, c, err := f.open(n)
		if err != nil {
			return err
		}
		err = n.WriteFrom(dst, r, 0o644, "")
		_ = c.Close()
		if err != nil {
			return err
		}
		out.Line("firmware " + f.Name)
	}
	for _, m := range a.Made {
		if m.Link != "" {
			if err := n.Symlink(m.Link, m.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *PutFirmware) aside(name string) string { return path.Join(a.Aside, name) }

func (a *PutFirmware) saves(p string) bool {
	for _, s := range a.Saved {
		if s.Path == p {
			return true
		}
	}
	return false
}

// Done measures every file by its digest.
func (a *PutFirmware) Done(_ context.Context, n *hostops.Node) (bool, error) {
	for _, f := range a.Files {
		sum := f.SHA256
		if sum == "" {
			var err error
			if sum, _, err = f.hash(n); err != nil {
				return false, nil
			}
		}
		if !(OwnFile{Path: path.Join(firmwareDir(a.State), f.Name), SHA256: sum}).same(n) {
			return false, nil
		}
	}
	for _, m := range a.Made {
		if m.Link != "" && !m.same(n) {
			return false, nil
		}
	}
	return true, nil
}

// Undo removes what was not there before and puts the older version back. When
// nothing is left, the kernel no longer looks there: a boot in between has told
// it to.
func (a *PutFirmware) Undo(_ context.Context, n *hostops.Node, _ hostops.Sink) error {
	var changed []string
	dir := firmwareDir(a.State)
	for _, f := range a.Files {
		if err := n.DropTemp(path.Join(dir, f.Name)); err != nil {
			return err
		}
		pruneDirs(n, path.Dir(path.Join(dir, f.Name)), a.State)
	}
	for _, m := range a.Made {
		if !m.there(n) {
			continue
		}
		if !m.same(n) {
			changed = append(changed, m.Path)
			continue
		}
		if err := n.Remove(m.Path); err != nil {
			return err
		}
		pruneDirs(n, path.Dir(m.Path), a.State)
	}
	for _, s := range a.Saved {
		aside := a.aside(strings.TrimPrefix(s.Path, dir+"/"))
		if n.Exists(aside) {
			if err := moveFile(n, aside, s.Path); err != nil {
				return err
			}
			pruneDirs(n, path.Dir(aside), a.State)
		}
	}
	if now, _ := kmod.FirmwarePath(n); now == dir && !n.Exists(dir) {
		if err := kmod.WriteFirmwarePath(n, a.Foreign); err != nil {
			return err
		}
	}
	if len(changed) > 0 {
		return &ChangedSince{changed}
	}
	return nil
}

// otherOwner names a driver, other than self, that has p.
func otherOwner(kept []Kept, p, self string) string {
	for _, k := range kept {
		if k.Driver.Name == self {
			continue
		}
		for _, f := range k.Files {
			if f.Path == p {
				return k.Driver.Name
			}
		}
	}
	return ""
}

// setFirmwarePath tells the kernel where the merged firmware is, when there
// is any.
func setFirmwarePath(n *hostops.Node, state string) error {
	dir := firmwareDir(state)
	if entries, err := os.ReadDir(n.Path(dir)); err != nil || len(entries) == 0 {
		return nil
	}
	if now, err := kmod.FirmwarePath(n); err != nil || now == dir {
		return nil // a kernel without the parameter has no such directory
	}
	return kmod.WriteFirmwarePath(n, dir)
}
