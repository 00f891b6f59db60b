package inflate

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// all reads a stream to its end and remembers every point it can have.
func all(r *Reader) (plain []byte, points []Point, err error) {
	for {
		r.StopAtBlock()
		p, err := r.Next()
		plain = append(plain, p...)
		if err == io.EOF {
			return plain, points, nil
		}
		if err != nil {
			return plain, points, err
		}
		if at, ok := r.Point(); ok {
			points = append(points, at)
		}
	}
}

// samples are plain texts that compress in different ways.
func samples(t testing.TB) map[string][]byte {
	module, err := os.ReadFile("../../../testdata/modules/6.1.0-57-amd64/e100.ko")
	require.NoError(t, err)
	noise := make([]byte, 300_000)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	return map[string][]byte{
		"nothing": {},
		"a byte":  {7},
		"zeros":   make([]byte, 1_000_000),
		"module":  module,
		"noise":   noise,
		"mixed":   bytes.Repeat(append(append(append([]byte{}, module...), noise[:70_000]...), make([]byte, 5000)...), 4),
	}
}

func packed(t testing.TB, plain []byte, level int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	require.NoError(t, err)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

var levels = []int{gzip.NoCompression, gzip.BestSpeed, gzip.DefaultCompression, gzip.BestCompression, gzip.HuffmanOnly}

func TestReadsWhatOthersWrite(t *testing.T) {
	for name, plain := range samples(t) {
		for _, level := range levels {
			raw := packed(t, plain, level)
			for _, src := range []io.Reader{bytes.NewReader(raw), iotest.HalfReader(bytes.NewReader(raw)), iotest.DataErrReader(bytes.NewReader(raw))} {
				got, _, err := all(NewReader(src))
				require.NoError(t, err, "%s, level %d", name, level)
				require.True(t, bytes.Equal(plain, got), "%s, level %d", name, level)
			}
			// A member after a member is read on, as in eStargz layers.
			got, _, err := all(NewReader(bytes.NewReader(append(append([]byte{}, raw...), raw...))))
			require.NoError(t, err)
			require.Len(t, got, 2*len(plain))
		}
	}
}

func TestGoesOnFromEveryPoint(t *testing.T) {
	for name, plain := range samples(t) {
		for _, level := range levels {
			raw := packed(t, plain, level)
			_, points, err := all(NewReader(bytes.NewReader(raw)))
			require.NoError(t, err)
			for _, p := range points {
				rest, _, err := all(Resume(bytes.NewReader(raw[p.In:]), p))
				require.NoError(t, err, "%s, level %d, %d", name, level, p.In)
				require.True(t, bytes.Equal(plain[p.Out:], rest), "%s, level %d, %d", name, level, p.In)
			}
		}
	}
}

// A stream that is cut anywhere says so, and one that is damaged does not pass.
func TestCutAndDamagedStreamsAreTold(t *testing.T) {
	raw := packed(t, samples(t)["module"], gzip.DefaultCompression)
	for n := 1; n < len(raw); n += 1 + n/20 {
		_, _, err := all(NewReader(bytes.NewReader(raw[:n])))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", n)
		_, _, err = all(NewReader(io.MultiReader(bytes.NewReader(raw[:n]), iotest.ErrReader(io.ErrNoProgress))))
		require.ErrorIs(t, err, io.ErrNoProgress, "%d bytes", n)
		bad := bytes.Clone(raw)
		bad[n] ^= 1
		if _, _, err = all(NewReader(bytes.NewReader(bad))); n > 32 { // the header's name and time may be anything
			require.Error(t, err, "byte %d", n)
		}
	}
	_, _, err := all(NewReader(bytes.NewReader(append(raw, "rest of something else"...))))
	require.ErrorIs(t, err, ErrCorrupt)
	_, _, err = all(NewReader(bytes.NewReader(nil)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A chunk stays what it is while the next one is made.
func TestChunkOutlivesTheNextCall(t *testing.T) {
	plain := samples(t)["mixed"]
	r := NewReader(bytes.NewReader(packed(t, plain, gzip.DefaultCompression)))
	var before, was []byte
	for {
		p, err := r.Next()
		require.True(t, bytes.Equal(was, before))
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		before, was = p, bytes.Clone(p)
	}
}

// FuzzInflate compares with compress/flate over arbitrary deflate streams: the
// same bytes, or an error in both.
func FuzzInflate(f *testing.F) {
	for _, plain := range samples(f) {
		for _, level := range levels {
			raw := packed(f, plain[:min(len(plain), 20_000)], level)
			f.Add(raw[29 : len(raw)-8])
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		src := bytes.NewReader(raw)
		want, werr := io.ReadAll(io.LimitReader(flate.NewReader(src), 4<<20))
		if len(want) == 4<<20 {
			return
		}
		stream := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0}
		stream = append(stream, raw[:len(raw)-src.Len()]...)
		if werr == nil {
			stream = binary.LittleEndian.AppendUint32(stream, crc32.ChecksumIEEE(want))
			stream = binary.LittleEndian.AppendUint32(stream, uint32(len(want)))
		}
		got, points, err := all(NewReader(iotest.HalfReader(bytes.NewReader(stream))))
		if (werr == nil) != (err == nil) {
			t.Fatalf("compress/flate says %v, this one %v", werr, err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(want, got) {
			t.Fatal("other bytes than compress/flate gives")
		}
		for _, p := range points[:min(len(points), 8)] {
			rest, _, err := all(Resume(bytes.NewReader(stream[p.In:]), p))
			if err != nil || !bytes.Equal(want[p.Out:], rest) {
				t.Fatalf("going on from %d: %v", p.In, err)
			}
		}
	})
}

// BenchmarkInflate compares with the libraries over modules as they lie in a
// layer.
func BenchmarkInflate(b *testing.B) {
	var plain []byte
	for _, name := range []string{"6.1.0-57-amd64/e100.ko", "6.1.0-57-amd64/ne2k-pci.ko", "6.1.0-55-amd64/mii.ko", "6.1.0-54-amd64/dummy.ko", "6.1.0-57-amd64/idxd_bus.ko"} {
		raw, err := os.ReadFile("../../../testdata/modules/" + name)
		require.NoError(b, err)
		plain = append(plain, raw...)
	}
	plain = bytes.Repeat(plain, 20)
	raw := packed(b, plain, gzip.DefaultCompression)
	run := func(name string, open func(io.Reader) (io.Reader, error)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				z, err := open(bytes.NewReader(raw))
				require.NoError(b, err)
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{z}, make([]byte, chunk))
				require.NoError(b, err)
				require.EqualValues(b, len(plain), n)
			}
		})
	}
	b.Run("this", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			r, n := NewReader(bytes.NewReader(raw)), 0
			for {
				p, err := r.Next()
				if n += len(p); err != nil {
					break
				}
			}
			require.Equal(b, len(plain), n)
		}
	})
	run("klauspost", func(r io.Reader) (io.Reader, error) { return kgzip.NewReader(r) })
	run("standard", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) })
}
