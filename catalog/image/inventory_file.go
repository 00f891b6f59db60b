package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"fitout/catalog/module"
)

// licenceBytes is the largest text that is taken for a licence, licenceCount
// how many are kept.
const (
	licenceBytes = 1 << 20
	licenceCount = 64
)

// inventoryFile is inventory.json: an inventoryDoc with the sha256 of its JSON
// without white space.
type inventoryFile struct {
	Format    int             `json:"format"`
	Sum       []byte          `json:"sum"`
	Inventory json.RawMessage `json:"inventory"`
}

// inventoryDoc is an inventory as it is stored. What the module files say of
// themselves is not in it: it is read from them again.
type inventoryDoc struct {
	*Inventory
	Want Want `json:"want"`
	// Sums are the sha256 of every file fetched, by path.
	Sums map[string][]byte `json:"sums"`
}

const inventoryFormat = 3

// ReadInventory gives the inventory of a directory that Fetch completed, when it
// and every file that was fetched are as they were then (some 1.5 GB/s): a module
// that a disk has spoilt must not be judged, laid out or loaded. The code of the
// error is StoreDamaged when they are not. A directory without an inventory, or
// with one of another format, is an error too. A process compares the files once,
// and again when one was touched since; what it gets is shared and not changed.
func ReadInventory(dir string) (*Inventory, error) {
	if inv := readBefore(dir); inv != nil {
		return inv, nil
	}
	inv, err := readInventory(dir)
	if err != nil {
		return nil, err
	}
	states, settled := filesOf(dir, inv)
	if err := inv.verify(dir); err != nil {
		return nil, err
	}
	if err := inv.readModules(dir); err != nil {
		return inv, err
	}
	if settled {
		verified.Store(dir, verifiedDir{inv, states})
	}
	named := *inv
	return &named, nil
}

func readInventory(dir string) (*Inventory, error) {
	raw, err := os.ReadFile(filepath.Join(dir, inventoryName))
	if err != nil {
		return nil, fmt.Errorf("reading the inventory of %s: %w", dir, err)
	}
	var file inventoryFile
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, damaged(dir, inventoryName).because(err)
	}
	if file.Format != inventoryFormat {
		return nil, fmt.Errorf("reading the inventory of %s: format %d is not %d", dir, file.Format, inventoryFormat)
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, file.Inventory); err != nil {
		return nil, damaged(dir, inventoryName).because(err)
	}
	if sum := sha256.Sum256(plain.Bytes()); !bytes.Equal(sum[:], file.Sum) {
		return nil, damaged(dir, inventoryName)
	}
	doc := inventoryDoc{Inventory: &Inventory{}}
	if err := json.Unmarshal(file.Inventory, &doc); err != nil {
		return nil, damaged(dir, inventoryName).because(err)
	}
	doc.Inventory.want, doc.Inventory.sums = doc.Want, doc.Sums
	return doc.Inventory, nil
}

func damaged(dir, file string) *Error {
	return fail(StoreDamaged, "%s in %s is not what was fetched any more", file, dir).
		hint("fetch the image again, where its registry or archive can be reached; and look at the disk")
}

// verify compares every file below dir with what was fetched.
func (inv *Inventory) verify(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	for _, p := range sortedKeys(inv.sums) {
		if !intact(root, p, inv.sums[p]) {
			return damaged(dir, p)
		}
	}
	return nil
}

// sameWant compares two wants; the order of releases does not matter.
func sameWant(a, b Want) bool {
	x, y := slices.Sorted(slices.Values(a.Releases)), slices.Sorted(slices.Values(b.Releases))
	a.Releases, b.Releases = nil, nil
	return slices.Equal(x, y) && reflect.DeepEqual(a, b)
}

// settle waits until everything written is on the disk. Writing back began when
// each file was closed, so this is one commit for most file systems.
func (x *extraction) settle() error {
	names := append(x.sortedFiles(), sortedKeys(x.dirs())...)
	for _, n := range names {
		f, err := x.root.Open(n)
		if err != nil {
			return fmt.Errorf("writing the image to disk: %w", err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return diskError("writing the image to disk", err)
		}
	}
	return nil
}

// write stores the inventory, the last of all files: its presence says that
// the directory is complete.
func (inv *Inventory) write(dir string) error {
	plain, err := json.Marshal(inventoryDoc{inv, inv.want, inv.sums})
	if err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	sum := sha256.Sum256(plain)
	raw, err := json.MarshalIndent(inventoryFile{inventoryFormat, sum[:], plain}, "", " ")
	if err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	defer d.Close()
	tmp := filepath.Join(dir, "."+inventoryName)
	if err := writeSynced(tmp, raw, 0o600); err != nil {
		return diskError("writing the inventory", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, inventoryName)); err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	return d.Sync()
}

func writeSynced(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func openFile(p string) (*os.File, error) {
	return os.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW, 0)
}

// readModules fills in what the module files say of themselves. A file that is
// no module is dropped with a note: the rest of the image may still serve.
func (inv *Inventory) readModules(dir string) error {
	for i := range inv.Kernels {
		k := &inv.Kernels[i]
		var good []Module
		for _, m := range k.Modules {
			info, err := module.ReadFile(filepath.Join(dir, filepath.FromSlash(m.Path)))
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("reading modules of %s: %w", inv.Reference, err)
			}
			if err != nil {
				k.Unusable = append(k.Unusable, Unusable{m.Path, err.Error()})
				inv.Notes = append(inv.Notes, fmt.Sprintf("%s is no usable module: %v", m.Path, err))
				continue
			}
			m.Info = info
			good = append(good, m)
		}
		k.Modules = good
	}
	return nil
}

// licences reads the texts found, by path, the same text once. notes say what is
// no text that a person could read here.
func (x *extraction) licences() (out []Licence, notes []string, err error) {
	seen, more := map[string]bool{}, 0
	for _, p := range x.sortedFiles() {
		named := x.sel.want.LicenceFile != "" && p == rooted(x.sel.want.LicenceFile)
		switch {
		case !isLicence(p, x.sel.want):
			continue
		case x.files[p].size > licenceBytes:
			notes = append(notes, fmt.Sprintf("%s is not shown as a licence: it has %d bytes", p, x.files[p].size))
			continue
		case len(out) >= licenceCount && !named:
			more++
			continue
		}
		raw, err := x.root.ReadFile(p)
		if err != nil {
			return nil, nil, fmt.Errorf("reading licence %s: %w", p, err)
		}
		sum := fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
		if seen[sum] || len(raw) == 0 {
			continue
		}
		seen[sum] = true
		text, ok := readable(raw)
		if !ok {
			notes = append(notes, p+" is not shown as a licence: it is no plain text")
			continue
		}
		out = append(out, Licence{Path: p, Digest: sum, Text: text})
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("%d more files are not shown as licences", more))
	}
	return out, notes, nil
}

// readable is a text as UTF-8: vendors write theirs in Latin-1 and, on Windows,
// in UTF-16 as well. What would have control characters then is no text.
func readable(raw []byte) (string, bool) {
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw), true
	}
	var runes []rune
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(raw, []byte{0xfe, 0xff}):
		order = binary.BigEndian
		fallthrough
	case bytes.HasPrefix(raw, []byte{0xff, 0xfe}):
		var units []uint16
		for i := 2; i+1 < len(raw); i += 2 {
			units = append(units, order.Uint16(raw[i:]))
		}
		runes = utf16.Decode(units)
	default:
		for _, b := range raw {
			runes = append(runes, rune(b))
		}
	}
	for _, r := range runes {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' {
			return "", false
		}
	}
	return string(runes), len(runes) > 0
}
