package agreement_test

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// The mutations. Each changes a module's bytes as one fault would.

const (
	sigMagic   = "~Module signature appended~\n"
	sigTrailer = 12 // struct module_signature, include/linux/module_signature.h
)

// signatureAt is where the signature of a signed module begins, and where its
// trailer does.
func signatureAt(b []byte) (signature, trailer int) {
	trailer = len(b) - len(sigMagic) - sigTrailer
	return trailer - int(binary.BigEndian.Uint32(b[trailer+8:])), trailer
}

// stripped is the module without its signature.
func stripped(b []byte) []byte {
	at, _ := signatureAt(b)
	return bytes.Clone(b[:at])
}

// replaced changes all occurrences of a text to one of the same length.
func replaced(t testing.TB, b []byte, old, by string) []byte {
	t.Helper()
	require.Len(t, by, len(old))
	require.True(t, bytes.Contains(b, []byte(old)), "%q is not in it", old)
	return bytes.ReplaceAll(b, []byte(old), []byte(by))
}

// otherCRC flips one bit of the version that a module records for a symbol
// (struct modversion_info: eight bytes of version, 56 of name).
func otherCRC(t testing.TB, b []byte, symbol string) []byte {
	t.Helper()
	entry := make([]byte, 56)
	copy(entry, symbol)
	at := bytes.Index(b, entry)
	require.Greater(t, at, 8, "%s is not among its versions", symbol)
	b = bytes.Clone(b)
	b[at-8] ^= 1
	return b
}

// header returns a section's header within the file.
func header(t testing.TB, b []byte, section string) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	require.NoError(t, err)
	for i, s := range f.Sections {
		if s.Name == section {
			at := binary.LittleEndian.Uint64(b[40:]) + uint64(i)*64 // e_shoff; Elf64_Shdr
			return b[at : at+64]
		}
	}
	t.Fatalf("no section %s", section)
	return nil
}

// structSize changes the recorded size of struct module.
func structSize(t testing.TB, b []byte) []byte {
	b = bytes.Clone(b)
	h := header(t, b, ".gnu.linkonce.this_module")
	binary.LittleEndian.PutUint64(h[32:], binary.LittleEndian.Uint64(h[32:])-64) // sh_size
	return b
}

// otherMachine makes it a file for ARM64.
func otherMachine(b []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint16(b[18:], uint16(elf.EM_AARCH64)) // e_machine
	return b
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x10
	return b
}

// The ways an appended signature can be damaged.

func signatureTooLong(b []byte) []byte {
	b = bytes.Clone(b)
	_, at := signatureAt(b)
	binary.BigEndian.PutUint32(b[at+8:], uint32(len(b)))
	return b
}

func signatureNoPKCS7(b []byte) []byte {
	at, _ := signatureAt(b)
	return flipped(b, at)
}

func signatureFlipped(b []byte) []byte {
	_, at := signatureAt(b)
	return flipped(b, at-20) // within the last field, the signature proper
}

func signatureOtherKind(b []byte) []byte {
	b = bytes.Clone(b)
	_, at := signatureAt(b)
	b[at+2] = 0 // PKEY_ID_PGP
	return b
}

// contentFlipped changes the text of a parameter, which no check but the signature's
// looks at.
func contentFlipped(t testing.TB, b []byte) []byte {
	at := bytes.Index(b, []byte("parm=numdummies:"))
	require.Positive(t, at)
	return flipped(b, at+len("parm=numdummies:"))
}

// The ways a module can be packed.

func xzPacked(t testing.TB, b []byte, check byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.WriterConfig{CheckSum: check, DictCap: 1 << 20}.NewWriter(&out)
	require.NoError(t, err)
	_, err = w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func gzPacked(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zstPacked(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(b, nil)
}
