package kmod

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fitout/catalog/module"
	"fitout/hostops"
)

// A cache file has the form of Module.symvers, and after the symbols a line
// "#read FILE" for each module that was read, "#image" when the kernel's image
// was, and "#end". Without "#end" it was cut and says nothing.
const (
	readMark = "#read "
	imgMark  = "#image\n"
	endMark  = "#end\n"
)

// entry is the cache file of this very build of the kernel.
func (h *harvest) entry() string {
	return filepath.Join(h.cache, "symvers-"+h.k.Release+"-"+buildOf(h.n, h.k))
}

// recall takes up what an earlier process harvested of the same build.
func (h *harvest) recall(s *Symbols) {
	if h.cache == "" {
		return
	}
	b, err := os.ReadFile(h.entry())
	if err != nil || !bytes.HasSuffix(b, []byte(endMark)) {
		return
	}
	found, err := ReadSymvers(bytes.NewReader(b))
	if err != nil {
		h.n.Log.Debug("cached harvest not usable", "file", h.entry(), "error", err)
		return
	}
	s.byName = found
	marks := max(0, bytes.Index(b, []byte(readMark)))
	for line := range strings.Lines(string(b[marks:])) {
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), readMark); ok {
			h.done[path.Join(h.k.Dir, file)] = true
		}
	}
	if bytes.HasSuffix(b, []byte(imgMark+endMark)) {
		h.tried, s.origin = true, FromImage
	}
	h.finish(s, len(h.files)+4*batch)
}

// buildOf is a short digest of what tells one build of a release from another:
// its sample module's build id and the size and time of the files that the
// kernel's build made. Image builders set all times alike; the build id holds.
func buildOf(n *hostops.Node, k *Kernel) string {
	h := sha256.New()
	fmt.Fprintln(h, k.Release, k.Vermagic, k.ModuleLayout)
	if m, err := module.ReadFile(n.Path(k.Sample), module.Limits{Only: module.BuildIDs}); err == nil {
		fmt.Fprintln(h, m.BuildID, m.Size)
	}
	for _, name := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		if st, err := n.Stat(path.Join(k.Dir, name)); err == nil {
			fmt.Fprintln(h, name, st.Size(), st.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// keep writes the cache file in one step.
func (h *harvest) keep(s *Symbols) error {
	if err := os.MkdirAll(h.cache, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(h.cache, ".symvers-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // gone already when it was renamed
	}()
	w := bufio.NewWriter(f)
	writeSymvers(w, s.byName)
	for _, file := range slices.Sorted(maps.Keys(h.done)) {
		fmt.Fprintf(w, "%s%s\n", readMark, strings.TrimPrefix(file, h.k.Dir+"/"))
	}
	if s.origin == FromImage {
		fmt.Fprint(w, imgMark)
	}
	fmt.Fprint(w, endMark)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), h.entry())
}

// writeSymvers writes symbols as [ReadSymvers] reads them.
func writeSymvers(w io.Writer, byName map[string]Symbol) {
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		if !s.HasCRC {
			continue
		}
		kind := "UNKNOWN"
		if s.TermsKnown {
			kind = "EXPORT_SYMBOL"
			if s.GPLOnly {
				kind = "EXPORT_SYMBOL_GPL"
			}
		}
		fmt.Fprintf(w, "0x%08x\t%s\t%s\t%s\t%s\n", s.CRC, name, s.Module, kind, s.Namespace)
	}
}

// sortedBySize sorts files of this machine, smallest first.
func sortedBySize(files []string) []string {
	sizes := make(map[string]int64, len(files))
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			sizes[f] = st.Size()
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	return files
}
