package kmod

import (
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"fmt"
)

// maxCertificate is the size of the largest certificate looked for, in bytes.
const maxCertificate = 16 << 10

// beforeVersion is what a certificate has before its version: two sequences
// with two-byte lengths, "30 82 LL LL 30 82 LL LL".
const beforeVersion = 8

// certificateSearch looks for a certificate by its serial number among those
// that were built into a kernel: certs/system_certificates.S puts them one
// behind the other, in DER, among the data of its start-up.
type certificateSearch struct{ mark []byte }

func newCertificateSearch(serial string) (*certificateSearch, error) {
	if serial == "" {
		return &certificateSearch{}, nil
	}
	number, err := hex.DecodeString(serial)
	if err != nil || len(number) > 64 {
		return nil, fmt.Errorf("%q is no serial number", serial)
	}
	if number[0]&0x80 != 0 {
		number = append([]byte{0}, number...) // DER integers are signed
	}
	// Version 3, then the serial.
	return &certificateSearch{append([]byte{0xa0, 3, 2, 1, 2, 2, byte(len(number))}, number...)}, nil
}

// in looks at what is fresh in a window and at what reaches into it.
func (s *certificateSearch) in(window []byte, fresh int, more bool) *x509.Certificate {
	if s.mark == nil {
		return nil
	}
	from := max(beforeVersion, fresh-maxCertificate)
	for from < len(window) {
		i := bytes.Index(window[from:], s.mark)
		if i < 0 {
			return nil
		}
		at := from + i - beforeVersion
		if more && at+maxCertificate > len(window) {
			return nil // the next window has it whole
		}
		if cert := certificateAt(window[at:]); cert != nil {
			return cert
		}
		from += i + 1
	}
	return nil
}

// certificateAt parses the certificate that b begins with, nil when it is none.
func certificateAt(b []byte) *x509.Certificate {
	if len(b) < 4 || b[0] != 0x30 || b[1] != 0x82 {
		return nil
	}
	size := 4 + int(b[2])<<8 + int(b[3])
	if size > len(b) {
		return nil
	}
	cert, err := x509.ParseCertificate(bytes.Clone(b[:size]))
	if err != nil {
		return nil
	}
	return cert
}
