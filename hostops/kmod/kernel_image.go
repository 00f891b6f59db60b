package kmod

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
)

// ErrNoExports says that a kernel image was read and tells nothing of its
// exports: it has no symbol versions, or a form that is not known here.
var ErrNoExports = errors.New("the kernel image does not tell its exports")

// KernelImage is what the file that boots tells of a kernel: no header package
// is needed to know what it exports, nor to know whose signature its own
// modules carry.
type KernelImage struct {
	// Exports are those of the kernel proper, with their versions.
	Exports map[string]Symbol
	// Certificate is the one that was asked for, nil when it is not built in.
	Certificate *x509.Certificate
}

// ReadKernelImage reads a kernel image of any form that [kernelPayload] knows,
// and finds its exports and the certificate with a serial number (lower-case
// hex; "": none is looked for). It is unpacked once, as far as needed, through a
// window of a few MiB: a whole kernel in memory would be 30 to 80. What the
// packing itself asks for comes on top: 32 MiB of xz, of zstd what was unpacked.
//
// An image without export tables is an error that wraps [ErrNoExports]; the
// certificate comes all the same.
func ReadKernelImage(r io.ReaderAt, serial string) (*KernelImage, error) {
	payload, err := kernelPayload(r)
	if err != nil {
		return &KernelImage{}, err
	}
	plain, err := unpacked(payload)
	if err != nil {
		return &KernelImage{}, err
	}
	defer plain.Close()
	search, err := newCertificateSearch(serial)
	if err != nil {
		return &KernelImage{}, err
	}
	image := &KernelImage{}
	err = slide(io.LimitReader(plain, maxKernel), func(window []byte, fresh int, more bool) bool {
		limit := len(window)
		if more {
			limit -= maxExports
		}
		if image.Exports == nil {
			image.Exports = findExports(window, limit)
		}
		if image.Certificate == nil {
			image.Certificate = search.in(window, fresh, more)
		}
		return image.Exports != nil && (image.Certificate != nil || serial == "")
	})
	if err != nil {
		return image, fmt.Errorf("unpacking the kernel image: %w", err)
	}
	if image.Exports == nil {
		return image, fmt.Errorf("%w: it has no tables as kernels with symbol versions have them", ErrNoExports)
	}
	return image, nil
}

// slideWindow is how much of an unpacked kernel is looked at together, in bytes.
const slideWindow = 2 * maxExports

// slide shows a stream through a window, whose last maxExports bytes are seen
// again as the first of the next. fresh is where what was not shown before
// begins; more says that a further window follows. It ends with the stream or
// when look returns true.
func slide(r io.Reader, look func(window []byte, fresh int, more bool) bool) error {
	window, fresh := make([]byte, slideWindow), 0
	for {
		n, err := readFull(r, window[fresh:])
		if err != nil && err != io.EOF {
			return err
		}
		if look(window[:fresh+n], fresh, err == nil) || err == io.EOF {
			return nil
		}
		fresh = copy(window, window[len(window)-maxExports:])
	}
}

// readFull is [io.ReadFull] that tells the end of a stream from one that was cut.
func readFull(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var got int
		got, err = r.Read(b[n:])
		n += got
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}
