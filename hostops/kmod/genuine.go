package kmod

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"fitout/catalog/module"
	"fitout/hostops"
)

// Genuine says whether a signature that names the key which signed the kernel's
// own modules fits the module's content. A kernel refuses a module whose
// signature does not, whether or not it enforces signatures. known is false
// when that cannot be told: another key, or one that cannot be found.
//
// The kernel's own module of that name answers for nothing where it is the
// same; else the certificate is looked for in the kernel's image, where it was
// built in, and kept in the cache.
func (k *Kernel) Genuine(m *module.Info) (fits, known bool) {
	sig, own := m.Signature, k.Signer
	if sig == nil || own == nil || sig.Digest == nil || sig.Serial == "" || sig.Serial != own.Serial || sig.Issuer != own.Issuer {
		return false, false
	}
	if same := k.ownSignature(m.Name); same != nil && same.Serial == sig.Serial && same.Hash == sig.Hash && sig.Algorithm == "rsa" {
		// Of one key, a content has one RSA signature, and a signature one content.
		content, value := bytes.Equal(same.Digest, sig.Digest), bytes.Equal(same.Value, sig.Value)
		if content || value {
			return content && value, true
		}
	}
	if k.certificate == nil {
		return false, false
	}
	cert := k.certificate()
	if cert == nil {
		return false, false
	}
	return verify(cert.PublicKey, sig)
}

// ownSignature is the signature of the kernel's own module of a name.
func (k *Kernel) ownSignature(name string) *module.Signature {
	p, ok := k.Tables.Path(name)
	if !ok || k.node == nil {
		return nil
	}
	info, err := module.ReadFile(k.node.Path(p), module.Limits{Only: module.Signed | module.Content})
	if err != nil {
		return nil
	}
	return info.Signature
}

// hashes are the digests' names as crypto knows them.
var hashes = map[string]crypto.Hash{"sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512}

func verify(key any, sig *module.Signature) (fits, known bool) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		h, ok := hashes[sig.Hash]
		return ok && rsa.VerifyPKCS1v15(key, h, sig.Digest, sig.Value) == nil, ok
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sig.Digest, sig.Value), true
	}
	return false, false
}

// findCertificate gets the certificate of the key that signed the kernel's own
// modules: out of the cache, else out of the image. nil: it is in neither.
func findCertificate(n *hostops.Node, k *Kernel, cache string) *x509.Certificate {
	if k.Signer == nil || k.Signer.Serial == "" {
		return nil
	}
	kept := filepath.Join(cache, "signer-"+k.Signer.Serial+".der")
	if cache != "" {
		if b, err := os.ReadFile(kept); err == nil {
			if cert, err := x509.ParseCertificate(b); err == nil {
				return cert
			}
		}
	}
	for _, file := range []string{path.Join(k.Dir, "vmlinuz"), path.Join(osRoot(k.Dir), "boot/vmlinuz-"+k.Release)} {
		f, err := n.Open(file)
		if err != nil {
			continue
		}
		cert, err := ReadCertificate(f, k.Signer.Serial)
		_ = f.Close()
		if err != nil {
			n.Log.Debug("the kernel image does not tell its key", "file", file, "error", err)
			continue
		}
		if cache != "" {
			if err := errors.Join(os.MkdirAll(cache, 0o755), os.WriteFile(kept, cert.Raw, 0o644)); err != nil {
				n.Log.Debug("certificate not kept", "file", kept, "error", err)
			}
		}
		return cert
	}
	return nil
}

// maxCertificate is the size of the largest certificate looked for, in bytes.
const maxCertificate = 16 << 10

// ReadCertificate finds the certificate with a serial number (hex) among those
// that were built into a kernel's image: certs/system_certificates.S puts them
// one behind the other, in DER, among the data of its start-up.
func ReadCertificate(r io.ReaderAt, serial string) (*x509.Certificate, error) {
	number, err := hex.DecodeString(serial)
	if err != nil || len(number) == 0 || len(number) > 64 {
		return nil, fmt.Errorf("%q is no serial number", serial)
	}
	if number[0]&0x80 != 0 {
		number = append([]byte{0}, number...) // DER integers are signed
	}
	// Version 3, then the serial; both sequences around it have two-byte lengths.
	mark := append([]byte{0xa0, 3, 2, 1, 2, 2, byte(len(number))}, number...)
	payload, err := kernelPayload(r)
	if err != nil {
		return nil, err
	}
	plain, err := unpacked(payload)
	if err != nil {
		return nil, err
	}
	const before = 8 // 30 82 LL LL 30 82 LL LL
	window := make([]byte, 0, 1<<20)
	for {
		kept := len(window)
		window = window[:cap(window)]
		got, err := io.ReadFull(plain, window[kept:])
		window = window[:kept+got]
		if at := bytes.Index(window, mark) - before; at >= 0 && (err != nil || at+maxCertificate <= len(window)) {
			return certificateAt(window[at:])
		}
		if err != nil {
			return nil, fmt.Errorf("no certificate with the serial number %s is in the kernel image", serial)
		}
		window = window[:copy(window, window[len(window)-maxCertificate-before-len(mark):])]
	}
}

// certificateAt parses the certificate that b begins with.
func certificateAt(b []byte) (*x509.Certificate, error) {
	size := 4 + int(b[2])<<8 + int(b[3])
	if b[0] != 0x30 || b[1] != 0x82 || size > len(b) {
		return nil, errors.New("what has the serial number in the kernel image is no certificate")
	}
	return x509.ParseCertificate(b[:size])
}
