package agreement_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/vm/debian"
)

// signer signs modules with a key that no kernel has, by the kernel's own
// program.
type signer struct {
	t                           testing.TB
	program, key, cert, subject string
}

func newSigner(t testing.TB, release string) *signer {
	t.Helper()
	program, err := debian.SignFile(release)
	require.NoError(t, err)
	dir := t.TempDir()
	s := &signer{t: t, program: program, key: filepath.Join(dir, "key.pem"), cert: filepath.Join(dir, "cert.pem"), subject: "A Vendor Nobody Enrolled"}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x5eed), Subject: pkix.Name{CommonName: s.subject},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{s.key: {Type: "PRIVATE KEY", Bytes: private}, s.cert: {Type: "CERTIFICATE", Bytes: cert}} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return s
}

// sign appends a signature to an unsigned module.
func (s *signer) sign(b []byte) []byte {
	s.t.Helper()
	in, out := filepath.Join(s.t.TempDir(), "module.ko"), filepath.Join(s.t.TempDir(), "signed.ko")
	require.NoError(s.t, os.WriteFile(in, b, 0o644))
	text, err := exec.Command(s.program, "sha256", s.key, s.cert, in, out).CombinedOutput()
	require.NoError(s.t, err, "signing takes libssl3: %s", text)
	signed, err := os.ReadFile(out)
	require.NoError(s.t, err)
	return signed
}
