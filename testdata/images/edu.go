package images

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"fitout/testdata/vm/debian"
)

//go:embed edu
var eduSources embed.FS

// The educational device of QEMU ("edu,addr=…"), whose driver is in no kernel,
// and the firmware without which that driver does not bind.
const (
	EduID       = "1234:11e8"
	EduFirmware = "edu/edu.bin"
)

// Edu builds the out-of-tree driver of the educational device for a kernel.
func Edu(k debian.Kernel) ([]byte, error) {
	sources, err := fs.Sub(eduSources, "edu")
	if err != nil {
		return nil, err
	}
	files, err := debian.Build(k.Release, sources)
	return files["edu.ko"], err
}

// BuiltFor is an unsigned module as it would be, had it been built for another
// release with the same symbol versions. That one's name must not be longer.
func BuiltFor(module []byte, release, other string) ([]byte, error) {
	from := []byte("vermagic=" + release + " ")
	if len(other) > len(release) || bytes.Count(module, from) != 1 {
		return nil, fmt.Errorf("the module's vermagic cannot be changed from %s to %s", release, other)
	}
	at := bytes.Index(module, from)
	end := at + bytes.IndexByte(module[at:], 0)
	text := "vermagic=" + other + string(module[at+len(from)-1:end])
	out := bytes.Clone(module)
	copy(out[at:end], text+strings.Repeat("\x00", end-at-len(text)))
	return out, nil
}

// XZ packs a module as xz -C crc32 does, which kernels can read.
func XZ(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(&b)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// Zstd packs a module.
func Zstd(data []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(data, nil), nil
}
