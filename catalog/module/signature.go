package module

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// A signed module file ends with: the signature, a struct module_signature
// (include/linux/module_signature.h), and this text.
const signatureMagic = "~Module signature appended~\n"

// The ways a signature names its form (enum pkey_id_type).
const (
	idX509  = 1
	idPKCS7 = 2
)

// readSignature looks at the end of the file. No magic text: unsigned. What
// the kernel checks before it looks for a key is checked here in the same
// order (mod_check_sig).
func (i *Info) readSignature(f *file, content bool) error {
	const trailer = 12 // algo, hash, id type, signer length, key id length, 3 pad, length big endian
	magic := int64(len(signatureMagic))
	if f.size < magic+trailer {
		return nil
	}
	end, err := f.bytes(f.size-magic-trailer, magic+trailer, nil)
	if err != nil || string(end[trailer:]) != signatureMagic {
		return err
	}
	size := int64(binary.BigEndian.Uint32(end[8:]))
	room := f.size - magic - trailer
	switch {
	case size >= room:
		i.SignatureErr = &SignatureError{fmt.Sprintf("it says it is %d bytes long, the file has %d before it", size, room)}
		return nil
	case end[2] == idX509:
		return i.oldSignature(f, end, room-size)
	case end[2] != idPKCS7:
		// the kernel knows PKCS#7 only and treats the rest as unsigned
		i.Signature = &Signature{Algorithm: fmt.Sprintf("unknown form %d", end[2])}
		return nil
	case end[0]|end[1]|end[3]|end[4]|end[5]|end[6]|end[7] != 0:
		i.SignatureErr = &SignatureError{"its trailer has fields set that PKCS#7 must leave zero"}
		return nil
	}
	if size > 1<<20 {
		i.SignatureErr = &SignatureError{fmt.Sprintf("it says it is %d bytes long", size)}
		return nil
	}
	body, err := f.bytes(room-size, size, nil)
	if err != nil {
		return err
	}
	i.Signature, i.SignatureErr = parsePKCS7(body)
	if content && i.Signature != nil && !i.Signature.attributes {
		i.Signature.Digest, err = digest(f, i.Signature.Hash, room-size)
	}
	return err
}

// digests are the hashes that modules are signed with.
var digests = map[string]func() hash.Hash{
	"sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// digest is the hash of the file's beginning, nil for a hash not known here.
func digest(f *file, name string, size int64) ([]byte, error) {
	open := digests[name]
	if open == nil {
		return nil, nil
	}
	h := open()
	if _, err := io.Copy(h, io.NewSectionReader(f.r, 0, size)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.name, err)
	}
	return h.Sum(nil), nil
}

// oldSignature is the form of kernels before 4.3: signer and key id as text
// and bytes before the signature.
func (i *Info) oldSignature(f *file, end []byte, at int64) error {
	signer, key := int64(end[3]), int64(end[4])
	if signer+key > at {
		i.SignatureErr = &SignatureError{"its signer's name begins before the file"}
		return nil
	}
	b, err := f.bytes(at-signer-key, signer+key, nil)
	if err != nil {
		return err
	}
	hashes := []string{"md4", "md5", "sha1", "rmd160", "sha256", "sha384", "sha512", "sha224"}
	s := &Signature{Signer: string(b[:signer]), KeyID: hex.EncodeToString(b[signer:]), Algorithm: "rsa"}
	if int(end[1]) < len(hashes) {
		s.Hash = hashes[end[1]]
	}
	i.Signature = s
	return nil
}
