package kmod_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops/kmod"
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
		"empty": {}, "zeros": make([]byte, 4096), "arm64": append([]byte("MZ"), make([]byte, 4096)...),
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
