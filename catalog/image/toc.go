package image

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
)

// An eStargz layer is a gzip layer whose files begin gzip members of their own,
// with a table of contents at its end. The table's digest is in the manifest,
// each chunk's in the table, so single files can be fetched and verified
// (stargz-snapshotter, docs/estargz.md).
const (
	tocAnnotation = "containerd.io/snapshot/stargz/toc.digest"
	tocName       = "stargz.index.json"
	tocFooter     = 51
	tocBytes      = 64 << 20 // the largest table that is read
)

// tocEntry is one line of the table.
type tocEntry struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // "reg", "chunk", "symlink", …
	Size        int64  `json:"size"`
	LinkName    string `json:"linkName"`
	Mode        int64  `json:"mode"`
	Offset      int64  `json:"offset"`
	InnerOffset int64  `json:"innerOffset"`
	ChunkSize   int64  `json:"chunkSize"`
	ChunkOffset int64  `json:"chunkOffset"`
	ChunkDigest string `json:"chunkDigest"`
}

// tocFile is a regular file as the table has it.
type tocFile struct {
	name   string
	size   int64
	mode   int64
	chunks []tocChunk
}

// tocChunk is a part of a file: bytes from..to of the layer unpack to size
// bytes of that digest.
type tocChunk struct {
	from, to, size int64
	digest         string
}

func (f tocFile) from() int64 { return f.chunks[0].from }
func (f tocFile) to() int64   { return f.chunks[len(f.chunks)-1].to }

// toc is a table of contents.
type toc struct {
	files []tocFile // by offset
	links []tocEntry
}

// tocStart reads the footer: where in the layer the table begins.
func tocStart(footer []byte) (int64, bool) {
	if len(footer) != tocFooter || !bytes.HasPrefix(footer, []byte{0x1f, 0x8b, 8, 4}) ||
		binary.LittleEndian.Uint16(footer[10:]) != 26 || string(footer[12:14]) != "SG" || string(footer[32:38]) != "STARGZ" {
		return 0, false
	}
	at, err := strconv.ParseInt(string(footer[16:32]), 16, 64)
	return at, err == nil && at >= 0
}

// parseTOC reads the table out of its gzip member and checks it against the
// digest of the manifest. end is where the files' bytes end.
func parseTOC(packed io.Reader, digest string, end int64) (*toc, error) {
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("table of contents: %w", noEOF(err))
	}
	t := tar.NewReader(z)
	h, err := t.Next()
	if err != nil || h.Name != tocName || h.Size > tocBytes {
		return nil, fmt.Errorf("no table of contents where the layer says it is")
	}
	raw, err := io.ReadAll(t)
	if err != nil {
		return nil, fmt.Errorf("table of contents: %w", err)
	}
	want, err := v1.NewHash(digest)
	if err != nil {
		return nil, fmt.Errorf("table of contents: %w", err)
	}
	if err := checkBytes("table of contents", raw, want); err != nil {
		return nil, err
	}
	var doc struct {
		Entries []tocEntry `json:"entries"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("table of contents: %w", err)
	}
	return newTOC(doc.Entries, end)
}

// newTOC joins chunks to files. A chunk ends where the next one begins.
func newTOC(entries []tocEntry, end int64) (*toc, error) {
	starts := []int64{end}
	for _, e := range entries {
		if e.ChunkDigest != "" {
			starts = append(starts, e.Offset)
		}
	}
	sort.Slice(starts, func(i, j int) bool { return starts[i] < starts[j] })
	t := &toc{}
	byName := map[string]int{}
	for _, e := range entries {
		switch {
		case e.Type == "symlink":
			t.links = append(t.links, e)
			continue
		case e.Type == "reg":
			byName[e.Name] = len(t.files)
			t.files = append(t.files, tocFile{name: e.Name, size: e.Size, mode: e.Mode})
		case e.Type != "chunk":
			continue
		}
		i, known := byName[e.Name]
		if e.ChunkDigest == "" {
			continue
		}
		next := sort.Search(len(starts), func(i int) bool { return starts[i] > e.Offset })
		if !known || next == len(starts) || e.InnerOffset != 0 || e.Offset < 0 || e.ChunkOffset < 0 || e.ChunkOffset > t.files[i].size {
			return nil, fmt.Errorf("table of contents: the entry %q is not one that can be fetched alone", e.Name)
		}
		size := or(e.ChunkSize, t.files[i].size-e.ChunkOffset)
		t.files[i].chunks = append(t.files[i].chunks, tocChunk{e.Offset, starts[next], size, e.ChunkDigest})
	}
	return t, nil
}
