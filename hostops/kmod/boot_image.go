package kmod

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"

	"fitout/catalog/module"
	"fitout/hostops"
)

// imageFiles are the places of the file that boots a kernel: %[1]s is the
// modules directory, %[2]s the OS root, %[3]s the release. Sources: systemd's
// kernel-install and ostree (beside the modules), SUSE kernel-binary.spec (arm64
// has Image there), Debian linux-image (in /boot).
var imageFiles = []string{"%[1]s/vmlinuz", "%[1]s/Image", "%[2]s/boot/vmlinuz-%[3]s", "%[2]s/boot/Image-%[3]s"}

// bootImage is a kernel's image. Reading it takes a second or two, so it is read
// once for all who ask, and what it says is kept in the cache: the certificate
// here, by its serial number, the exports by the harvest.
type bootImage struct {
	n     *hostops.Node
	k     *Kernel
	cache string // directory, "" for none

	mu      sync.Mutex
	read    bool
	both    bool              // the certificate will be asked for too
	sought  bool              // it was looked for when the image was read
	exports map[string]Symbol // nil when there are none, or they were taken
	problem string            // why there are none
	cert    *x509.Certificate
}

// certificate is that of the key which signed the kernel's own modules: out of
// the cache, else out of the image. nil: it is in neither.
func (b *bootImage) certificate() *x509.Certificate {
	b.mu.Lock()
	fresh := !b.read
	if b.recall() == nil && !b.sought && b.serial() != "" {
		b.both, b.read = true, false
		if b.readOnce(); !fresh {
			b.exports = nil // they were taken before
		}
	}
	cert := b.cert
	fresh = fresh && b.read
	b.mu.Unlock()
	if fresh && b.cache != "" {
		b.k.Symbols.keepImage()
	}
	return cert
}

// ExpectGenuine says that [Kernel.Genuine] will be asked about these modules. The
// image is then read once for that and for what the kernel exports; else only
// as far as the exports, which are in its first half.
func (k *Kernel) ExpectGenuine(modules ...*module.Info) {
	if k.image == nil || k.Signer == nil {
		return
	}
	k.image.mu.Lock()
	defer k.image.mu.Unlock()
	for _, m := range modules {
		if m.Signature != nil && m.Signature.Serial != "" && m.Signature.Serial == k.Signer.Serial {
			k.image.both = true
		}
	}
}

// takeExports hands over what the kernel proper exports, once.
func (b *bootImage) takeExports() map[string]Symbol {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recall()
	b.readOnce()
	found := b.exports
	b.exports = nil
	return found
}

// kept is the file of the certificate in the cache, "" for none.
func (b *bootImage) kept() string {
	if b.cache == "" || b.serial() == "" {
		return ""
	}
	return filepath.Join(b.cache, "signer-"+b.serial()+".der")
}

func (b *bootImage) serial() string {
	if b.k.Signer == nil {
		return ""
	}
	return b.k.Signer.Serial
}

// recall returns the certificate when it is known already.
func (b *bootImage) recall() *x509.Certificate {
	if b.cert == nil && b.kept() != "" {
		if der, err := os.ReadFile(b.kept()); err == nil {
			b.cert, _ = x509.ParseCertificate(der)
		}
	}
	return b.cert
}

// readOnce reads the first image that is of this build: the version of
// module_layout is that of the kernel's own modules. One of another build says
// nothing about them; a certificate in it is the right one all the same.
func (b *bootImage) readOnce() {
	if b.read {
		return
	}
	b.read = true
	collect()
	defer collect()
	for _, pattern := range imageFiles {
		file := path.Clean(fmt.Sprintf(pattern, b.k.Dir, osRoot(b.k.Dir), b.k.Release))
		f, err := b.n.Open(file)
		if err != nil {
			continue
		}
		wanted := ""
		if b.both && b.cert == nil {
			wanted, b.sought = b.serial(), true
		}
		image, err := ReadKernelImage(f, wanted)
		_ = f.Close()
		if image.Certificate != nil {
			b.cert = image.Certificate
			b.keep()
		}
		if layout, ok := image.Exports["module_layout"]; err == nil && ok && layout.CRC == b.k.ModuleLayout {
			b.exports = image.Exports
			return
		}
		if err == nil {
			err = errors.New("it is of another build than the modules")
		}
		b.problem = fmt.Sprintf("%s was no help: %v", file, err)
		b.n.Log.Debug("kernel image not usable for symbol versions", "file", file, "error", err)
	}
	if b.problem == "" {
		b.problem = fmt.Sprintf("its image was not found (vmlinuz in %s, or boot/vmlinuz-%s)", b.k.Dir, b.k.Release)
	}
}

// ImageProblem says why the file that boots this kernel did not tell what the
// kernel exports; "" when it did, or was not asked.
func (k *Kernel) ImageProblem() string {
	if k.image == nil {
		return ""
	}
	k.image.mu.Lock()
	defer k.image.mu.Unlock()
	return k.image.problem
}

// collect gives memory back. Decoders of kernel images take tens of MiB at once:
// garbage from before would lie beside them, and after them Go would let garbage
// grow as large again. Twice, for what pools hold goes at the second time.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

func (b *bootImage) keep() {
	if b.kept() == "" {
		return
	}
	if err := errors.Join(os.MkdirAll(b.cache, 0o755), os.WriteFile(b.kept(), b.cert.Raw, 0o644)); err != nil {
		b.n.Log.Debug("certificate not kept", "file", b.kept(), "error", err)
	}
}
