package images

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// signatureMagic ends a signed module (include/linux/module_signature.h).
var signatureMagic = []byte("~Module signature appended~\n")

// Unsign cuts the signature off a module.
func Unsign(module []byte) ([]byte, error) {
	if !bytes.HasSuffix(module, signatureMagic) {
		return nil, errors.New("the module is not signed")
	}
	rest := module[:len(module)-len(signatureMagic)]
	if len(rest) < 12 {
		return nil, errors.New("the module is too short for a signature")
	}
	length := int(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if length+12 > len(rest) {
		return nil, fmt.Errorf("the signature's length %d is larger than the module", length)
	}
	return bytes.Clone(rest[:len(rest)-12-length]), nil
}

// Damage changes one byte of a signed module's code. The kernel refuses it with
// EKEYREJECTED whether or not it enforces signatures, and says nothing.
func Damage(module []byte) ([]byte, error) {
	if !bytes.HasSuffix(module, signatureMagic) {
		return nil, errors.New("the module is not signed")
	}
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	text := f.Section(".text")
	if text == nil || text.Size == 0 {
		return nil, errors.New("the module has no code")
	}
	out := bytes.Clone(module)
	out[text.Offset+text.Size-1] ^= 0xff
	return out, nil
}

// ChangeCRC returns the module, unsigned, with another version of a symbol that
// it imports.
func ChangeCRC(module []byte, symbol string) ([]byte, error) {
	out, err := Unsign(module)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	versions := f.Section("__versions")
	if versions == nil {
		return nil, errors.New("the module has no symbol versions")
	}
	// struct modversion_info: 8 bytes of CRC, 56 bytes of name.
	for at := versions.Offset; at+64 <= versions.Offset+versions.Size; at += 64 {
		name, _, _ := bytes.Cut(out[at+8:at+64], []byte{0})
		if string(name) == symbol {
			out[at] ^= 0xff
			return out, nil
		}
	}
	return nil, fmt.Errorf("the module does not import %s", symbol)
}

// OtherBuild returns the module, unsigned, as another build of itself: its source
// version is another one, and its build id, by which modules without a source
// version are told apart.
func OtherBuild(module []byte) ([]byte, error) {
	out, err := Unsign(module)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	note := f.Section(".note.gnu.build-id")
	if note == nil || note.Size == 0 {
		return nil, errors.New("the module has no build id")
	}
	out[note.Offset+note.Size-1] ^= 0xff
	const field = "\x00srcversion="
	if i := bytes.Index(out, []byte(field)); i >= 0 {
		digit := &out[i+len(field)]
		*digit = map[bool]byte{true: 'A', false: 'B'}[*digit == 'B']
	}
	return out, nil
}
