package unzstd

import (
	"bytes"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// texts are contents that make an encoder use every kind of block.
func texts() []string {
	noise := make([]byte, 300_000)
	_, _ = rand.New(rand.NewSource(1)).Read(noise)
	words := strings.Builder{}
	for i := range 60_000 {
		words.WriteString([]string{"lorem ", "ipsum ", "dolor\n", "sit "}[i*i%7%4])
		words.WriteByte(noise[i])
	}
	return []string{"", "x", "hello, hello, hello", strings.Repeat("\x00", 1<<20), strings.Repeat("a", 400_000), string(noise), words.String(),
		words.String() + strings.Repeat("\x00", 200_000) + words.String()}
}

func packed(t testing.TB, text string, level zstd.EncoderLevel) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithZeroFrames(true))
	require.NoError(t, err)
	return w.EncodeAll([]byte(text), nil)
}

func TestWhatWasPackedIsUnpacked(t *testing.T) {
	for _, text := range texts() {
		for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
			z, err := NewReader(bytes.NewReader(packed(t, text, level)), len(text))
			require.NoError(t, err)
			got, err := io.ReadAll(z)
			require.NoError(t, err)
			require.True(t, text == string(got), "level %v, %d bytes", level, len(text))
			require.NoError(t, z.Close())
			_, err = z.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.ErrClosedPipe)
		}
	}
}

func TestMoreThanWasExpectedIsAnError(t *testing.T) {
	z, err := NewReader(bytes.NewReader(packed(t, "hello, hello", zstd.SpeedDefault)), 11)
	require.NoError(t, err)
	defer z.Close()
	_, err = io.ReadAll(z)
	require.ErrorIs(t, err, ErrDamaged)
}

func TestCutStreamIsAnError(t *testing.T) {
	text := texts()[6]
	b := packed(t, text, zstd.SpeedDefault)
	for _, n := range []int{0, 3, 5, 8, 100, len(b) / 2, len(b) - 8} {
		z, err := NewReader(bytes.NewReader(b[:n]), len(text))
		if err == nil {
			_, err = io.ReadAll(z)
			require.NoError(t, z.Close())
		}
		require.Error(t, err, "%d bytes", n)
	}
}

// What both read is the same, and whatever the other reads is read.
func FuzzAgainstThePeer(f *testing.F) {
	for _, text := range texts() {
		f.Add(packed(f, text[:min(len(text), 20_000)], zstd.SpeedBestCompression))
		f.Add(packed(f, text[:min(len(text), 300)], zstd.SpeedDefault))
	}
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := NewReader(bytes.NewReader(b), limit)
		if err != nil {
			return
		}
		defer z.Close()
		got, err := io.ReadAll(z)
		if len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
		peer, perr := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(limit), zstd.IgnoreChecksum(true))
		if perr != nil {
			return
		}
		defer peer.Close()
		want, perr := io.ReadAll(io.LimitReader(peer, limit))
		if perr == nil && err == nil && !bytes.HasPrefix(want, got) {
			t.Fatalf("%d bytes, the other reader has %d", len(got), len(want))
		}
		if perr == nil && err != nil && len(want) < limit {
			t.Fatalf("%v, the other reader has %d bytes", err, len(want))
		}
	})
}
