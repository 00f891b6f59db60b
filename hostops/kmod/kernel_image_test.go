package kmod_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/testdata/vm/debian"
)

// bootImage is a bzImage around a payload.
func bootImage(payload []byte) []byte {
	b := make([]byte, 1024)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	return append(b, payload...)
}

func TestKernelImageThatTellsNothingIsAnError(t *testing.T) {
	header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 8192)...)
	lying := bytes.Clone(header)
	binary.LittleEndian.PutUint64(lying[40:], 1<<62) // section headers beyond all bounds
	binary.LittleEndian.PutUint16(lying[60:], 0xffff)
	for name, b := range map[string][]byte{
		"empty": {}, "zeros": make([]byte, 4096), "EFI program": append([]byte("MZ"), make([]byte, 4096)...),
		"no payload": bootImage(nil), "unknown packing": bootImage(make([]byte, 4096)),
		"damaged zstd": bootImage(append([]byte("\x28\xb5\x2f\xfd"), make([]byte, 4096)...)),
		"damaged xz":   bootImage(append([]byte("\xfd7zXZ\x00"), make([]byte, 4096)...)),
		"no sections":  bootImage(header), "lying header": bootImage(lying),
	} {
		_, err := kmod.ReadKernelImage(bytes.NewReader(b), "")
		require.Error(t, err, name)
	}
}

func TestCutKernelImageIsAnError(t *testing.T) {
	rel, _ := stockKernel(t)
	b, err := os.ReadFile(rel.Vmlinuz())
	require.NoError(t, err)
	_, err = kmod.ReadKernelImage(bytes.NewReader(b[:len(b)/2]), "0102030405060708")
	require.Error(t, err)
}

// An image that is packed in a way which is not read says which one.
func TestUnreadablePackingIsNamed(t *testing.T) {
	for name, magic := range map[string]string{"LZMA": "\x5d\x00\x00\x80", "LZO": "\x89LZO\x00"} {
		_, err := kmod.ReadKernelImage(bytes.NewReader(bootImage(append([]byte(magic), make([]byte, 4096)...))), "")
		require.ErrorIs(t, err, kmod.ErrNoExports)
		require.ErrorContains(t, err, "packed with "+name)
	}
}

// What the kernel exports stays open then, and the reason names the file.
func TestKernelWithAnUnreadableImageSaysWhy(t *testing.T) {
	n := newNode(t)
	open := func() *kmod.Kernel {
		k, err := kmod.OpenKernel(n, release, "")
		require.NoError(t, err)
		require.Empty(t, k.ImageProblem(), "not asked yet")
		_, ok := k.Symbols.Lookup("no_such_symbol")
		require.False(t, ok)
		require.False(t, k.Symbols.Complete())
		return k
	}
	require.Contains(t, open().ImageProblem(), "was not found (vmlinuz in "+modulesDir)
	put(t, n, "/boot/vmlinuz-"+release, string(bootImage(append([]byte("\x5d\x00\x00\x80"), make([]byte, 4096)...))))
	require.Contains(t, open().ImageProblem(), "/boot/vmlinuz-"+release+" was no help")
	require.Contains(t, open().ImageProblem(), "packed with LZMA, which is not read here")
}

// An arm64 kernel's image says what its own modules say, each version of each
// symbol, as it is and in the containers that distributions put it into.
func TestArm64ImageAgreesWithItsModules(t *testing.T) {
	rel, err := debian.ARM64()
	require.NoError(t, err)
	plain, err := os.ReadFile(rel.Vmlinuz())
	require.NoError(t, err)
	k, err := kmod.OpenKernel(hostops.At(rel.Dir, nil), rel.Release, "")
	require.NoError(t, err)
	image, err := kmod.ReadKernelImage(bytes.NewReader(plain), k.Signer.Serial)
	require.NoError(t, err)
	require.Equal(t, k.Signer.Serial, fmt.Sprintf("%x", image.Certificate.SerialNumber))
	require.Greater(t, len(image.Exports), 9000)
	require.True(t, image.Exports["register_netdevice"].CRC != 0 && !image.Exports["register_netdevice"].GPLOnly)
	require.True(t, image.Exports["bus_register"].GPLOnly)

	checked := 0
	for _, name := range k.Tables.Names() {
		p, _ := k.Tables.Path(name)
		m, err := module.ReadFile(filepath.Join(rel.Dir, p), module.Limits{Only: module.Versions})
		require.NoError(t, err)
		for _, imp := range m.Imports {
			if _, ofModule := k.Tables.SymbolProvider(imp.Name); ofModule {
				continue
			}
			require.Equal(t, fmt.Sprintf("%08x", imp.CRC), fmt.Sprintf("%08x", image.Exports[imp.Name].CRC), "%s in %s", imp.Name, name)
			checked++
		}
	}
	require.Greater(t, checked, 10000)

	for name, b := range map[string][]byte{"Image.gz": gzipped(t, plain), "zboot": zbootImage(zstandard(t, plain), len(plain))} {
		again, err := kmod.ReadKernelImage(bytes.NewReader(b), k.Signer.Serial)
		require.NoError(t, err, name)
		require.True(t, maps.Equal(image.Exports, again.Exports), name)
		require.Equal(t, image.Certificate.Raw, again.Certificate.Raw, name)
	}
	_, ok := k.Symbols.Lookup("no_such_symbol")
	require.False(t, ok)
	require.Equal(t, kmod.FromImage, k.Symbols.Origin())
}

func gzipped(t *testing.T, b []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstandard(t *testing.T, b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(32<<20))
	require.NoError(t, err)
	return w.EncodeAll(b, nil)
}

// zbootImage is what an EFI zboot kernel is: a program with a packed Image
// (drivers/firmware/efi/libstub/zboot-header.S and Makefile.zboot).
func zbootImage(packed []byte, size int) []byte {
	b := make([]byte, 0x10000)
	copy(b, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(packed)))
	copy(b[24:], "zstd22")
	return binary.LittleEndian.AppendUint32(append(b, packed...), uint32(size))
}
