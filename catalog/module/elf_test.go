package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulesDir = "../../testdata/modules"

// real is a module file from Debian.
func real(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(modulesDir, name))
	require.NoError(t, err)
	return b
}

// object is a module that a test writes section by section, for forms that no
// module of testdata has.
type object struct {
	order    binary.ByteOrder
	is64     bool
	sections []struct {
		name string
		data []byte
	}
}

func (o *object) add(name string, data []byte) *object {
	o.sections = append(o.sections, struct {
		name string
		data []byte
	}{name, data})
	return o
}

// bytes lays the object out as an ELF file.
func (o *object) bytes() []byte {
	order := o.order
	if order == nil {
		order = binary.LittleEndian
	}
	all := append([]struct {
		name string
		data []byte
	}{{"", nil}}, o.sections...)
	names := []byte{0}
	at := make([]uint32, len(all)+1)
	for i, s := range all[1:] {
		at[i+1] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	at[len(all)] = uint32(len(names))
	names = append(append(names, ".shstrtab"...), 0)
	all = append(all, struct {
		name string
		data []byte
	}{".shstrtab", names})

	header, entry := 52, 40
	if o.is64 {
		header, entry = 64, 64
	}
	var body bytes.Buffer
	table := make([]byte, entry*len(all))
	for i, s := range all {
		h := table[i*entry:]
		order.PutUint32(h, at[i])
		if i > 0 {
			order.PutUint32(h[4:], uint32(elf.SHT_PROGBITS))
		}
		if o.is64 {
			order.PutUint64(h[24:], uint64(header+body.Len()))
			order.PutUint64(h[32:], uint64(len(s.data)))
		} else {
			order.PutUint32(h[16:], uint32(header+body.Len()))
			order.PutUint32(h[20:], uint32(len(s.data)))
		}
		body.Write(s.data)
	}
	head := make([]byte, header)
	copy(head, elf.ELFMAG)
	head[4], head[5], head[6] = byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), 1
	if order == binary.BigEndian {
		head[5] = byte(elf.ELFDATA2MSB)
	}
	order.PutUint16(head[16:], uint16(elf.ET_REL))
	order.PutUint16(head[18:], uint16(elf.EM_PPC))
	tail := head[46:]
	if o.is64 {
		head[4] = byte(elf.ELFCLASS64)
		order.PutUint64(head[40:], uint64(header+body.Len()))
		tail = head[58:]
	} else {
		order.PutUint32(head[32:], uint32(header+body.Len()))
	}
	order.PutUint16(tail, uint16(entry))
	order.PutUint16(tail[2:], uint16(len(all)))
	order.PutUint16(tail[4:], uint16(len(all)-1))
	return append(append(head, body.Bytes()...), table...)
}

func readBytes(b []byte, name string) (*Info, error) {
	return Read(bytes.NewReader(b), name, Limits{})
}

func withModinfo(text string) *object {
	o := &object{is64: true}
	return o.add(".gnu.linkonce.this_module", make([]byte, 896)).add(".modinfo", []byte(text))
}
