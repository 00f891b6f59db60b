package module

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
)

// ReadFile reads a module file by its path. A plain file is read in place, a
// few small reads of what is wanted; a packed one is decompressed into memory.
// At most one Limits counts. Errors are [*FileError], or from the file system.
func ReadFile(name string, limits ...Limits) (*Info, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadOpen(f, path.Base(name), limits...)
}

// ReadOpen is [ReadFile] of an open file; filename gives the module's name when
// the file does not.
func ReadOpen(f *os.File, filename string, limits ...Limits) (*Info, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &FileError{File: filename, Kind: ErrNotModule, Size: -1, Detail: "not a regular file"}
	}
	var lim Limits
	if len(limits) > 0 {
		lim = limits[0]
	}
	return ReadAt(f, st.Size(), filename, lim)
}

// ReadAt reads a module of size bytes, packed or not.
func ReadAt(r io.ReaderAt, size int64, filename string, lim Limits) (*Info, error) {
	var head [6]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", filename, err)
	}
	lim = lim.withDefaults()
	if packed := Sniff(head[:n]); packed != Plain {
		return readPacked(io.NewSectionReader(r, 0, size), filename, lim, plainSize(r, size, packed))
	}
	if size > lim.MaxSize {
		return nil, &FileError{File: filename, Kind: ErrTooBig, Size: size, Detail: fmt.Sprintf("allowed are %d", lim.MaxSize)}
	}
	return read(&file{name: filename, r: r, size: size}, lim)
}

// Read reads a module from a stream, packed or not, into memory of at most
// MaxSize bytes. The compression is found by the first bytes, never by the
// file's name.
func Read(r io.Reader, filename string, lim Limits) (*Info, error) {
	return readPacked(r, filename, lim.withDefaults(), 0)
}

// readPacked is Read of a stream that has expected bytes, 0 when that is not
// known.
func readPacked(r io.Reader, filename string, lim Limits, expected int64) (*Info, error) {
	plain, packed, check, err := unpack(r, lim.MaxWindow)
	if err != nil {
		return nil, packError(filename, err)
	}
	room := takeRoom()
	defer room.giveBack()
	data, err := room.fill(plain, lim.MaxSize, expected)
	if err != nil {
		return nil, packError(filename, err)
	}
	info, err := read(&file{name: filename, r: bytes.NewReader(data), size: int64(len(data)), tail: data, shared: true}, lim)
	if err != nil {
		return nil, err
	}
	info.Packed, info.XZCheck = packed, check
	return info, nil
}

func packError(filename string, err error) error {
	if errors.Is(err, ErrPacked) || errors.Is(err, ErrWindow) || errors.Is(err, ErrTooBig) {
		return &FileError{File: filename, Kind: err, Size: -1}
	}
	return fmt.Errorf("reading %s: %w", filename, err)
}

// scratch buffers serve sections that are not kept.
var scratch = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// read reads an uncompressed module.
func read(f *file, lim Limits) (*Info, error) {
	if err := f.open(); err != nil {
		return nil, err
	}
	this := f.find(".gnu.linkonce.this_module")
	if this == nil {
		return nil, f.fail(ErrNotModule, "an object file without .gnu.linkonce.this_module")
	}
	info := &Info{Machine: f.machine, StructModuleSize: this.size, Size: f.size, XZCheck: -1}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	if err := info.readParts(f, lim.Only, buf); err != nil {
		return nil, err
	}
	if info.Name == "" {
		info.Name = NameOf(f.name)
	}
	info.Name = Normalize(info.Name)
	return info, nil
}

func (i *Info) readParts(f *file, want Part, buf *[]byte) error {
	if want&Modinfo != 0 {
		data, err := f.data(f.find(".modinfo"), *buf)
		if err != nil {
			return err
		}
		i.parseModinfo(data)
	}
	if want&Versions != 0 {
		if err := i.readVersions(f, buf); err != nil {
			return err
		}
	}
	if want&Symbols != 0 {
		if err := i.readSymbols(f, buf); err != nil {
			return err
		}
	}
	if want&BuildIDs != 0 {
		data, err := f.data(f.find(".note.gnu.build-id"), *buf)
		if err != nil {
			return err
		}
		i.BuildID = buildID(f, data)
	}
	if want&Signed != 0 {
		return i.readSignature(f, want&Content != 0)
	}
	return nil
}

// grow keeps a larger buffer for the next section.
func (f *file) grow(buf *[]byte, used []byte) {
	if !f.shared && cap(used) > cap(*buf) && cap(used) <= 4<<20 {
		*buf = used[:cap(used)]
	}
}

// buildID reads an ELF note section (name size, description size, type, name,
// description, each part padded to four bytes).
func buildID(f *file, note []byte) string {
	for len(note) >= 12 {
		name, desc, kind := uint64(f.order.Uint32(note)), uint64(f.order.Uint32(note[4:])), f.order.Uint32(note[8:])
		from := 12 + (name+3)&^3
		if from+desc > uint64(len(note)) {
			return ""
		}
		if kind == 3 && string(cString(note[12:12+name])) == "GNU" { // NT_GNU_BUILD_ID
			return hex.EncodeToString(note[from : from+desc])
		}
		note = note[min(from+(desc+3)&^3, uint64(len(note))):]
	}
	return ""
}
