package module

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

func xzPack(t testing.TB, b []byte, c xz.WriterConfig) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := c.NewWriter(&out)
	require.NoError(t, err)
	_, err = w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Kernels that decompress modules themselves refuse every check but none and
// CRC32; xz's default is CRC64. Here each is read, and its type is told.
func TestXZWithTheDefaultCheckIsReadAndNamed(t *testing.T) {
	dummy := real(t, "6.1.0-57-amd64/dummy.ko")
	for check, name := range map[byte]string{xz.CRC32: "CRC32", xz.CRC64: "CRC64", xz.SHA256: "SHA-256"} {
		i, err := readBytes(xzPack(t, dummy, xz.WriterConfig{CheckSum: check}), "dummy.ko.xz")
		require.NoError(t, err, name)
		require.EqualValues(t, check, i.XZCheck)
		require.Equal(t, name, XZCheckName(i.XZCheck))
		require.Equal(t, "dummy", i.Name)
	}
	i, err := readBytes(xzPack(t, dummy, xz.WriterConfig{NoCheckSum: true}), "dummy.ko.xz")
	require.NoError(t, err)
	require.Equal(t, 0, i.XZCheck)
	require.Equal(t, "none", XZCheckName(i.XZCheck))
}

func TestXZOfManyBlocksAndStreams(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 8192)
	one := xzPack(t, text, xz.WriterConfig{BlockSize: 10000})
	two := joined(one, make([]byte, 8), xzPack(t, []byte("tail"), xz.WriterConfig{CheckSum: xz.CRC64}))
	r, packed, err := Decompress(bytes.NewReader(two))
	require.NoError(t, err)
	require.Equal(t, XZ, packed)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, append(bytes.Clone(text), "tail"...), got)

	empty := xzPack(t, nil, xz.WriterConfig{})
	r, _, err = Decompress(bytes.NewReader(empty))
	require.NoError(t, err)
	got, err = io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, got)
}

// What was decoded is dropped behind the window while the positions that the
// odds depend on go on.
func TestXZStreamLargerThanItsWindow(t *testing.T) {
	e100 := real(t, "6.1.0-57-amd64/e100.ko")
	for _, c := range []struct {
		size  int
		props lzma.Properties
	}{{5 << 20, lzma.Properties{LC: 3, LP: 0, PB: 2}}, {1 << 18, lzma.Properties{LC: 0, LP: 4, PB: 4}}, {1 << 18, lzma.Properties{LC: 4, LP: 0, PB: 0}}} {
		var text []byte
		for n := 0; len(text) < c.size; n++ {
			text = append(text, e100[n%977:]...)
			text = append(text, bytes.Repeat([]byte{byte(n)}, n%13)...)
		}
		packed := xzPack(t, text, xz.WriterConfig{DictCap: 1 << 17, Properties: &c.props, CheckSum: xz.SHA256})
		r, _, err := Decompress(bytes.NewReader(packed))
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
	}
	l := newLZMA2(bytes.NewReader(nil), 1<<16)
	for range 50 {
		l.out = len(l.hist)
		l.room(maxUnpacked - 5)
	}
	require.LessOrEqual(t, cap(l.hist), 1<<16+2*maxUnpacked, "memory is the window and a chunk or two")
}

// Every byte of a stream is covered by some sum: none can change unseen but
// those that say nothing about the content.
func TestXZWithOneByteFlippedIsDamaged(t *testing.T) {
	whole := real(t, "6.12.117+deb12-amd64/dummy.ko.xz")
	want, err := readBytes(whole, "dummy.ko")
	require.NoError(t, err)
	for n := 0; n < len(whole); n += 11 {
		cut := bytes.Clone(whole)
		cut[n] ^= 0x40
		if n < 6 {
			continue // no xz at all then
		}
		_, err := readBytes(cut, "dummy.ko")
		require.ErrorIs(t, err, ErrPacked, "byte %d", n)
	}
	require.Equal(t, "dummy", want.Name)
	_, err = readBytes(joined(whole, []byte("more")), "dummy.ko")
	require.ErrorIs(t, err, ErrPacked)
}

// The memory a stream asks for is known before it is taken.
func TestXZWindowBombIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	b := bytes.Clone(real(t, "6.12.117+deb12-amd64/dummy.ko.xz"))
	size := (int(b[12]) + 1) * 4
	header := b[12 : 12+size]
	at := bytes.Index(header, []byte{0x21, 1})
	require.Positive(t, at)
	header[at+2] = 40 // 4 GiB
	binary.LittleEndian.PutUint32(header[size-4:], crc32.ChecksumIEEE(header[:size-4]))
	_, err := readBytes(b, "a.ko.xz")
	require.ErrorIs(t, err, ErrWindow)
	require.ErrorContains(t, err, "4294967295 bytes, allowed are 67108864")

	_, err = Read(bytes.NewReader(real(t, "6.12.117+deb12-amd64/dummy.ko.xz")), "a.ko.xz", Limits{MaxWindow: 4096})
	require.ErrorIs(t, err, ErrWindow)
}
