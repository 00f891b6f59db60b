package kmod

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"

	"fitout/catalog/module"
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
	if k.image == nil {
		return false, false
	}
	cert := k.image.certificate()
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
