package judge

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/catalog/module"
	"fitout/hostops"
	"fitout/hostops/kmod"
	"fitout/workflow/finding"
)

// The kernels that testdata has real modules of.
const (
	k57   = "6.1.0-57-amd64"
	k55   = "6.1.0-55-amd64"
	k54   = "6.1.0-54-amd64"
	cloud = "6.1.0-57-cloud-amd64"
	rt    = "6.1.0-57-rt-amd64"
	k612  = "6.12.117+deb12-amd64"
)

// nicE100 and nicNe2k are devices that e100 and ne2k-pci list.
const (
	nicE100 = "pci:v00008086d00001229sv00001AF4sd00001100bc02sc00i00"
	nicNe2k = "pci:v000010ECd00008029sv00001AF4sd00001100bc02sc00i00"
)

func realModule(t testing.TB, release, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/modules", release, name))
	require.NoError(t, err)
	return b
}

// built is an image under construction.
type built struct {
	t   testing.TB
	inv image.Inventory
}

func newImage(t testing.TB) *built {
	return &built{t: t, inv: image.Inventory{Reference: "registry.local:5000/drivers/test:1"}}
}

// with adds Debian's modules of a release, unchanged, in that release's directory.
func (b *built) with(release string, names ...string) *built {
	for _, n := range names {
		b.file(release, n, realModule(b.t, release, n))
	}
	return b
}

// file adds a module file by its bytes.
func (b *built) file(release, name string, data []byte) *built {
	b.t.Helper()
	info, err := module.Read(bytes.NewReader(data), filepath.Base(name), module.Limits{})
	require.NoError(b.t, err)
	return b.module(release, name, info)
}

func (b *built) module(release, name string, info *module.Info) *built {
	at := slices.IndexFunc(b.inv.Kernels, func(k image.Kernel) bool { return k.Release == release })
	if at < 0 {
		at = len(b.inv.Kernels)
		b.inv.Kernels = append(b.inv.Kernels, image.Kernel{Release: release})
	}
	k := &b.inv.Kernels[at]
	k.Modules = append(k.Modules, image.Module{Path: "opt/lib/modules/" + release + "/" + name, Info: info})
	return b
}

func (b *built) firmware(names ...string) *built {
	for _, n := range names {
		b.inv.Firmware = append(b.inv.Firmware, image.File{Path: "firmware/" + n, Name: n, Size: 1})
	}
	return b
}

// kernelDir lays out a kernel's modules directory from Debian's modules.
type kernelDir struct {
	t       testing.TB
	root    string
	release string
}

func newKernel(t testing.TB, release string) *kernelDir {
	d := &kernelDir{t: t, root: t.TempDir(), release: release}
	d.write("modules.builtin", "kernel/drivers/gpu/host1x/host1x.ko\n")
	// Its own dummy is there, to read vermagic and versions from.
	name := "dummy.ko"
	if release == k612 {
		name += ".xz"
	}
	return d.has(name)
}

func (d *kernelDir) write(name, text string) *kernelDir {
	p := filepath.Join(d.root, "lib/modules", d.release, name)
	require.NoError(d.t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(d.t, os.WriteFile(p, []byte(text), 0o644))
	return d
}

// has adds modules of the host.
func (d *kernelDir) has(names ...string) *kernelDir {
	for _, n := range names {
		d.write("kernel/drivers/"+n, string(realModule(d.t, d.release, n)))
	}
	return d
}

// symvers adds the kernel's own list of exports.
func (d *kernelDir) symvers() *kernelDir {
	return d.write("symvers", string(realModule(d.t, d.release, "Module.symvers")))
}

func (d *kernelDir) open() *kmod.Kernel {
	d.t.Helper()
	k, err := kmod.OpenKernel(hostops.At(d.root, nil), d.release, "/lib/modules/"+d.release)
	require.NoError(d.t, err)
	return k
}

// debian is the kernel of most tests: all symbols known, mii on the host.
func debian(t testing.TB) *kmod.Kernel { return newKernel(t, k57).has("mii.ko").symvers().open() }

// relaxed is a running kernel that takes anything it can link.
func relaxed() *kmod.Policy {
	return &kmod.Policy{HasCapability: true, KeysKnown: true, Lockdown: "none", SecureBoot: "off"}
}

// input is a judgement of e100 for the running Debian kernel.
func input(t testing.TB, b *built) Input {
	return Input{
		Inventory: &b.inv, Release: k57, Kernel: debian(t), Policy: relaxed(), Loaded: []kmod.LoadedModule{},
		Machine: "x86_64", Devices: []string{nicE100}, HostFirmware: func(string) bool { return true },
	}
}

func find(j Judgement, code finding.Code) *finding.Finding {
	for i := range j.Findings {
		if j.Findings[i].Code == code {
			return &j.Findings[i]
		}
	}
	return nil
}

func mustFind(t testing.TB, j Judgement, code finding.Code) finding.Finding {
	t.Helper()
	f := find(j, code)
	require.NotNil(t, f, "no finding %s among %v", code, j.Findings)
	return *f
}

func checked(t testing.TB, j Judgement, name string) Check {
	t.Helper()
	for _, c := range j.Checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no check "+name, "%v", j.Checks)
	return Check{}
}

func order(j Judgement) (names []string) {
	for _, l := range j.Load {
		names = append(names, l.From+":"+l.Module)
	}
	return names
}

// The mutations. Each is made in the file's bytes, and takes the signature
// away, which would not fit any more.

func unsigned(t testing.TB, b []byte) []byte {
	end := len(b) - len("~Module signature appended~\n")
	return bytes.Clone(b[:end-12-int(binary.BigEndian.Uint32(b[end-4:]))])
}

// replace changes text of equal length, which must be there once or more.
func replace(t testing.TB, b []byte, old, by string) []byte {
	t.Helper()
	require.Equal(t, len(old), len(by))
	require.True(t, bytes.Contains(b, []byte(old)), old)
	return bytes.ReplaceAll(unsigned(t, b), []byte(old), []byte(by))
}

// otherCRC flips one bit of the version that a module records for a symbol.
func otherCRC(t testing.TB, b []byte, symbol string) []byte {
	t.Helper()
	b = unsigned(t, b)
	entry := make([]byte, 56)
	copy(entry, symbol)
	at := bytes.Index(b, entry)
	require.Positive(t, at, symbol)
	b[at-8] ^= 1
	return b
}
