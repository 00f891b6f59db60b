package module

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
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
func (i *Info) readSignature(f *file) error {
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
	return nil
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

// The parts of RFC 5652 that a kernel signature uses.
type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,tag:0"`
}

type signedData struct {
	Version      int
	Digests      asn1.RawValue `asn1:"set"`
	Content      asn1.RawValue
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	CRLs         asn1.RawValue `asn1:"optional,tag:1"`
	Signers      []signerInfo  `asn1:"set"`
}

type signerInfo struct {
	Version       int
	ID            asn1.RawValue
	Digest        pkix.AlgorithmIdentifier
	SignedAttrs   asn1.RawValue `asn1:"optional,tag:0"`
	Algorithm     pkix.AlgorithmIdentifier
	Signature     []byte
	UnsignedAttrs asn1.RawValue `asn1:"optional,tag:1"`
}

type issuerAndSerial struct {
	Issuer asn1.RawValue
	Serial *big.Int
}

// parsePKCS7 reads who signed. The signature itself cannot be verified
// without the certificate, which only the kernel has.
func parsePKCS7(der []byte) (*Signature, *SignatureError) {
	bad := func(what string) (*Signature, *SignatureError) {
		return nil, &SignatureError{"its PKCS#7 message " + what}
	}
	var outer contentInfo
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		return bad("cannot be read: " + err.Error())
	}
	if outer.Type.String() != "1.2.840.113549.1.7.2" {
		return bad("holds " + outer.Type.String() + " where signed data should be")
	}
	var data signedData
	if _, err := asn1.Unmarshal(outer.Content.Bytes, &data); err != nil {
		return bad("cannot be read: " + err.Error())
	}
	if len(data.Signers) == 0 {
		return bad("names no signer")
	}
	signer := data.Signers[0]
	s := &Signature{
		Hash:      oidName(signer.Digest.Algorithm),
		Algorithm: oidName(signer.Algorithm.Algorithm),
	}
	if signer.ID.Class == asn1.ClassContextSpecific { // a subject key id
		s.KeyID = hex.EncodeToString(signer.ID.Bytes)
		return s, nil
	}
	var id issuerAndSerial
	if _, err := asn1.Unmarshal(signer.ID.FullBytes, &id); err != nil {
		return bad("names its signer in a way that cannot be read: " + err.Error())
	}
	var rdn pkix.RDNSequence
	if _, err := asn1.Unmarshal(id.Issuer.FullBytes, &rdn); err != nil {
		return bad("names its signer in a way that cannot be read: " + err.Error())
	}
	var name pkix.Name
	name.FillFromRDNSequence(&rdn)
	s.Signer, s.Issuer = name.CommonName, name.String()
	s.Serial = hex.EncodeToString(id.Serial.Bytes())
	s.KeyID = s.Serial
	return s, nil
}

// oidName names the algorithms that kernels sign with.
func oidName(oid asn1.ObjectIdentifier) string {
	if name, ok := oidNames[oid.String()]; ok {
		return name
	}
	return oid.String()
}

var oidNames = map[string]string{
	"1.3.14.3.2.26":           "sha1",
	"2.16.840.1.101.3.4.2.1":  "sha256",
	"2.16.840.1.101.3.4.2.2":  "sha384",
	"2.16.840.1.101.3.4.2.3":  "sha512",
	"2.16.840.1.101.3.4.2.4":  "sha224",
	"2.16.840.1.101.3.4.2.8":  "sha3-256",
	"2.16.840.1.101.3.4.2.9":  "sha3-384",
	"2.16.840.1.101.3.4.2.10": "sha3-512",
	"1.2.840.113549.1.1.1":    "rsa",
	"1.2.840.113549.1.1.5":    "rsa",
	"1.2.840.113549.1.1.11":   "rsa",
	"1.2.840.113549.1.1.12":   "rsa",
	"1.2.840.113549.1.1.13":   "rsa",
	"1.2.840.10045.2.1":       "ecdsa",
	"1.2.840.10045.4.3.2":     "ecdsa",
	"1.2.840.10045.4.3.3":     "ecdsa",
	"1.2.840.10045.4.3.4":     "ecdsa",
	"2.16.840.1.101.3.4.3.17": "ml-dsa-44",
	"2.16.840.1.101.3.4.3.18": "ml-dsa-65",
	"2.16.840.1.101.3.4.3.19": "ml-dsa-87",
}
