package module

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// The PKCS#7 message of a module signature (RFC 5652, signed data without
// content), walked by hand: thousands of modules are read in one go, and the
// standard library's reflection would be a third of the time.

// DER tags.
const (
	tagInteger  = 0x02
	tagOctets   = 0x04
	tagOID      = 0x06
	tagSequence = 0x30
	tagSet      = 0x31
	tagContext0 = 0xa0
	tagContext1 = 0xa1
	tagKeyID    = 0x80
)

// der is what is left of a DER value's content.
type der []byte

// next takes one element off the front.
func (d *der) next() (tag byte, body der, ok bool) {
	b := *d
	if len(b) < 2 || b[0]&0x1f == 0x1f {
		return 0, nil, false
	}
	n, at := int(b[1]), 2
	if n >= 0x80 {
		octets := n & 0x7f
		if octets == 0 || octets > 3 || len(b) < 2+octets {
			return 0, nil, false
		}
		n = 0
		for _, o := range b[2 : 2+octets] {
			n = n<<8 | int(o)
		}
		at += octets
	}
	if n > len(b)-at {
		return 0, nil, false
	}
	*d = b[at+n:]
	return b[0], b[at : at+n], true
}

// take is next for one expected tag; a nil result means it was not there.
func (d *der) take(want byte) (der, bool) {
	if len(*d) == 0 || (*d)[0] != want {
		return nil, false
	}
	_, body, ok := d.next()
	return body, ok
}

// parsePKCS7 reads who signed. Whether the signature fits takes the signer's
// certificate, which is not in it.
func parsePKCS7(message []byte) (*Signature, *SignatureError) {
	bad := func(what string) (*Signature, *SignatureError) {
		return nil, &SignatureError{"its PKCS#7 message " + what}
	}
	d := der(message)
	outer, ok := d.take(tagSequence)
	if !ok {
		return bad("cannot be read")
	}
	kind, ok := outer.take(tagOID)
	if !ok {
		return bad("cannot be read")
	}
	if name := oidText(kind); name != "1.2.840.113549.1.7.2" {
		return bad("holds " + name + " where signed data should be")
	}
	wrapped, ok1 := outer.take(tagContext0)
	data, ok2 := wrapped.take(tagSequence)
	if !ok1 || !ok2 {
		return bad("holds no signed data")
	}
	_, ok1 = data.take(tagInteger)
	_, ok2 = data.take(tagSet)
	_, ok3 := data.take(tagSequence)
	if !ok1 || !ok2 || !ok3 {
		return bad("cannot be read")
	}
	data.take(tagContext0) // certificates
	data.take(tagContext1) // revocation lists
	signers, ok := data.take(tagSet)
	if !ok {
		return bad("cannot be read")
	}
	signer, ok := signers.take(tagSequence)
	if !ok {
		return bad("names no signer")
	}
	s, ok := parseSigner(signer)
	if !ok {
		return bad("names its signer in a way that cannot be read")
	}
	return s, nil
}

// parseSigner reads a SignerInfo.
func parseSigner(d der) (*Signature, bool) {
	s := &Signature{}
	if _, ok := d.take(tagInteger); !ok {
		return nil, false
	}
	tag, id, ok := d.next()
	switch {
	case !ok:
		return nil, false
	case tag == tagSequence:
		issuer, ok1 := id.take(tagSequence)
		serial, ok2 := id.take(tagInteger)
		if !ok1 || !ok2 || len(serial) == 0 {
			return nil, false
		}
		for len(serial) > 1 && serial[0] == 0 {
			serial = serial[1:]
		}
		s.Serial = hex.EncodeToString(serial)
		s.KeyID = s.Serial
		if s.Signer, s.Issuer, ok = parseName(issuer); !ok {
			return nil, false
		}
	case tag == tagKeyID || tag == tagContext0:
		s.KeyID = hex.EncodeToString(id)
	default:
		return nil, false
	}
	digest, ok1 := d.take(tagSequence)
	_, s.attributes = d.take(tagContext0) // signed attributes
	algorithm, ok2 := d.take(tagSequence)
	signature, ok3 := d.take(tagOctets)
	if !ok1 || !ok2 || !ok3 || len(signature) == 0 {
		return nil, false
	}
	s.Value = bytes.Clone(signature)
	s.Hash, ok1 = algorithmName(digest)
	s.Algorithm, ok2 = algorithmName(algorithm)
	return s, ok1 && ok2
}

func algorithmName(d der) (string, bool) {
	oid, ok := d.take(tagOID)
	text := oidText(oid)
	if name, known := oidNames[text]; known {
		return name, ok
	}
	return text, ok
}

// parseName reads a distinguished name: its common name, and all of it as
// RFC 4514 writes it, the most specific part first.
func parseName(d der) (common, all string, ok bool) {
	var parts []string
	for len(d) > 0 {
		set, ok := d.take(tagSet)
		if !ok {
			return "", "", false
		}
		for len(set) > 0 {
			attribute, ok1 := set.take(tagSequence)
			kind, ok2 := attribute.take(tagOID)
			_, value, ok3 := attribute.next()
			if !ok1 || !ok2 || !ok3 {
				return "", "", false
			}
			name := oidText(kind)
			if known, ok := attributeNames[name]; ok {
				name = known
			}
			if name == "CN" && common == "" {
				common = strings.ToValidUTF8(string(value), "?")
			}
			parts = append(parts, name+"="+escaped(value))
		}
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return common, strings.Join(parts, ","), true
}

// escaped is an attribute's value with what RFC 4514 sets apart quoted.
func escaped(value []byte) string {
	text := strings.ToValidUTF8(string(value), "?")
	if !strings.ContainsAny(text, `,+"\<>;`) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(`,+"\<>;`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// oidText is an object identifier in dotted numbers.
func oidText(b []byte) string {
	var text []byte
	n, first := uint64(0), true
	for i, o := range b {
		if i > 32 {
			break
		}
		n = n<<7 | uint64(o&0x7f)
		if o&0x80 != 0 {
			continue
		}
		if first {
			top := min(n/40, 2)
			text = strconv.AppendUint(text, top, 10)
			n, first = n-top*40, false
		}
		text = append(text, '.')
		text = strconv.AppendUint(text, n, 10)
		n = 0
	}
	return string(text)
}

// attributeNames are the short names of RFC 4514 and of kernel certificates.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
	"1.2.840.113549.1.9.1": "emailAddress",
}

// oidNames are the algorithms that kernels sign with.
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
