package kmod

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"fitout/catalog/module"
)

// table is an excerpt of a real kernel's table.
func table(t testing.TB, name string) string {
	b, err := os.ReadFile("testdata/6.1.0-57-amd64/" + name)
	require.NoError(t, err)
	return string(b)
}

func sortedLines[V any](m map[string]V, line func(string, V) string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(line(k, m[k]))
	}
	return b.String()
}

// What was read of modules.dep, written down, reads the same.
func FuzzModulesDep(f *testing.F) {
	f.Add(table(f, "modules.dep"))
	f.Add("kernel/a-b.ko.xz: kernel/c.ko\nupdates/a_b.ko:\n:\nx")
	f.Fuzz(func(t *testing.T, text string) {
		deps := parseDeps(text)
		if len(deps) > strings.Count(text, ":") {
			t.Fatalf("%d modules in %q", len(deps), text)
		}
		for name, d := range deps {
			if name != module.NameOf(d.path) || !strings.Contains(text, d.path+":"+d.needs) {
				t.Fatalf("%q: %+v", name, d)
			}
		}
		again := parseDeps(sortedLines(deps, func(_ string, d depLine) string { return d.path + ":" + d.needs + "\n" }))
		if !reflect.DeepEqual(deps, again) {
			t.Fatalf("%v\n%v", deps, again)
		}
	})
}

func FuzzModulesSoftdep(f *testing.F) {
	f.Add(table(f, "modules.softdep"))
	f.Add("softdep a-b pre: c c post: d pre: e\nsoftdep a_b pre: c post:\nsoftdep x y z")
	f.Fuzz(func(t *testing.T, text string) {
		soft := parseSoftdeps(text)
		again := parseSoftdeps(sortedLines(soft, func(name string, d softDep) string {
			for _, words := range [][]string{d.pre, d.post} {
				if name != module.Normalize(name) || slices.Contains(words, "pre:") || slices.Contains(words, "post:") ||
					len(slices.Compact(slices.Sorted(slices.Values(words)))) != len(words) {
					t.Fatalf("%q: %q", name, words)
				}
			}
			return "softdep " + name + " pre: " + strings.Join(d.pre, " ") + " post: " + strings.Join(d.post, " ") + "\n"
		}))
		if !reflect.DeepEqual(soft, again) {
			t.Fatalf("%v\n%v", soft, again)
		}
	})
}

func FuzzModulesWeakdep(f *testing.F) {
	f.Add("weakdep drm-kms a b\nweakdep drm_kms c\nweakdep x")
	f.Fuzz(func(t *testing.T, text string) {
		weak := parseWeakdeps(text)
		again := parseWeakdeps(sortedLines(weak, func(name string, w []string) string {
			return "weakdep " + name + " " + strings.Join(w, " ") + "\n"
		}))
		if !reflect.DeepEqual(weak, again) {
			t.Fatalf("%v\n%v", weak, again)
		}
	})
}

func FuzzModulesSymbols(f *testing.F) {
	f.Add(table(f, "modules.symbols"))
	f.Fuzz(func(t *testing.T, text string) {
		symbols := parseSymbols(text)
		again := parseSymbols(sortedLines(symbols, func(name, mod string) string {
			return "alias symbol:" + name + " " + mod + "\n"
		}))
		if !reflect.DeepEqual(symbols, again) {
			t.Fatalf("%v\n%v", symbols, again)
		}
	})
}

// The index of a bus finds what going through all lines finds.
func FuzzModulesAlias(f *testing.F) {
	f.Add(table(f, "modules.alias")[:8000], "pci:v00008086d00001229sv00008086sd0000000Cbc02sc00i00")
	f.Add("alias pci:v*[0-9]x-* a\nalias p* b\nalias [op]ci:* c\nalias pci:?\\* d e\n", "pci:v9x_*")
	f.Fuzz(func(t *testing.T, text, modalias string) {
		if len(text) > 16<<10 || len(modalias) > 256 || len(modalias) < busKey {
			return
		}
		var want []string
		for line := range strings.SplitSeq(text, "\n") {
			line, ok := strings.CutPrefix(line, "alias ")
			if i := strings.LastIndexByte(line, ' '); ok && i > 0 && module.MatchAlias(line[:i], modalias) {
				want = append(want, line)
			}
		}
		a := &aliasTable{text: text, buses: map[string]*bus{}}
		b := a.bus(modalias[:busKey])
		var got []string
		for _, i := range b.match(modalias) {
			got = append(got, b.entries[i].pattern+" "+b.entries[i].module)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, one by one %q", modalias, got, want)
		}
	})
}

func FuzzBuiltinModinfo(f *testing.F) {
	f.Add(table(f, "modules.builtin.modinfo"))
	f.Add("a-b.alias=pci:*\x00c.alias=\x00.alias=x\x00d.file=alias=\x00e")
	f.Fuzz(func(t *testing.T, text string) {
		found := builtinAliases(text)
		if len(found) > strings.Count(text, ".alias=") {
			t.Fatalf("%d aliases in %q", len(found), text)
		}
		var b strings.Builder
		for _, e := range found {
			if !e.builtin || e.module != module.Normalize(e.module) {
				t.Fatalf("%+v", e)
			}
			b.WriteString(e.module + ".alias=" + e.pattern + "\x00")
		}
		if again := builtinAliases(b.String()); !slices.Equal(found, again) {
			t.Fatalf("%v\n%v", found, again)
		}
	})
}

// packings of a text, as kernels' packages have them.
func packings(t testing.TB, text string) [][]byte {
	var gz, zst, x bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zst)
	require.NoError(t, err)
	w, err := xz.NewWriter(&x)
	require.NoError(t, err)
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{g, z, w} {
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	return [][]byte{[]byte(text), gz.Bytes(), zst.Bytes(), x.Bytes()}
}

// However much a symvers file unpacks to, no more than the limit is kept; what
// is read of it, written as the cache does, reads the same.
func FuzzSymvers(f *testing.F) {
	const limit = 64 << 10
	for _, text := range []string{
		"0x0ed17fa9\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n0x5d73a3d0\tmii_link_ok\tdrivers/net/mii\tEXPORT_SYMBOL\t\n0xd1b0b2e5\tcrypto_simd\tvmlinux\tEXPORT_SYMBOL_GPL\tCRYPTO_INTERNAL\n",
		strings.Repeat("0x00000001\ta\tvmlinux\tUNKNOWN\t\n", 3000),
	} {
		for _, b := range packings(f, text) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := readSymvers(bytes.NewReader(b), limit)
		if err != nil {
			return
		}
		size := 0
		for name, s := range found {
			size += len(name) + len(s.Namespace)
			if name == "" || !s.HasCRC || s.Module == "" && !strings.Contains(string(b), "\t\t") && module.Sniff(b) == module.Plain {
				t.Fatalf("%q: %+v", name, s)
			}
			if !s.TermsKnown || s.Module != module.NameOf(s.Module) {
				delete(found, name) // "UNKNOWN" has no terms to keep
			}
		}
		if size > limit {
			t.Fatalf("%d bytes kept, allowed are %d", size, limit)
		}
		if len(found) == 0 {
			return
		}
		var out bytes.Buffer
		writeSymvers(&out, found)
		again, err := readSymvers(&out, 4*limit)
		if err != nil || !reflect.DeepEqual(found, again) {
			t.Fatalf("%v\n%v\n%v", err, found, again)
		}
	})
}

// exportTables lays out export tables as the kernel's linker script does, from
// lines "NAME GPL NAMESPACE", sorted.
func exportTables(lines []string) []byte {
	count := len(lines)
	b := make([]byte, 16*count)
	text := []byte{}
	for i, line := range lines {
		f := strings.Split(line, " ")
		ref := func(at int, s string) {
			binary.LittleEndian.PutUint32(b[at:], uint32(16*count+len(text)-at))
			text = append(append(text, s...), 0)
		}
		ref(ksymSize*i+4, f[0])
		if f[2] != "" {
			ref(ksymSize*i+8, f[2])
		}
		binary.LittleEndian.PutUint32(b[ksymSize*count+4*i:], uint32(i)*2654435761)
	}
	return append(b, text...)
}

func sampleTables() []byte {
	var lines []string
	for i := range 24 {
		lines = append(lines, fmt.Sprintf("sym_%02d false ", i))
	}
	for i := range 8 {
		lines = append(lines, fmt.Sprintf("a_gpl_%02d true %s", i, []string{"", "NS_X"}[i%2]))
	}
	return exportTables(lines)
}

func TestExportTablesAreFoundByTheirShape(t *testing.T) {
	b := sampleTables()
	found := findExports(b, len(b))
	require.Len(t, found, 32)
	require.Equal(t, Symbol{CRC: 0x9e3779b1, HasCRC: true, TermsKnown: true, Module: "vmlinux"}, found["sym_01"])
	crc := uint32(25)
	crc *= 2654435761
	require.Equal(t, Symbol{CRC: crc, HasCRC: true, TermsKnown: true, GPLOnly: true, Namespace: "NS_X", Module: "vmlinux"}, found["a_gpl_01"])
	require.Empty(t, findExports(b, 0), "they begin behind the limit")
	require.Empty(t, findExports(b[:len(b)-300], len(b)), "cut")

	flags := append(bytes.Clone(b[:16*32]), make([]byte, 32)...) // a fifth table between versions and names
	for i := range 32 {
		for _, at := range []int{12*i + 4, 12*i + 8} {
			if v := binary.LittleEndian.Uint32(flags[at:]); v != 0 {
				binary.LittleEndian.PutUint32(flags[at:], v+32)
			}
		}
	}
	flags = append(flags, b[16*32:]...)
	require.Empty(t, findExports(flags, len(flags)), "a form that is not known")
}

// Where tables lie does not matter, and all that is found lies inside them.
func FuzzKernelExports(f *testing.F) {
	f.Add(sampleTables())
	f.Add(append(make([]byte, 4), sampleTables()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 8<<10 {
			return
		}
		found := findExports(b, len(b))
		if 16*len(found) > len(b) {
			t.Fatalf("%d exports in %d bytes", len(found), len(b))
		}
		for name, s := range found {
			if symbolName([]byte(name+"\x00"), 0) == nil || len(s.Namespace) >= maxSymbolName || !s.HasCRC {
				t.Fatalf("%q: %+v", name, s)
			}
		}
		moved := findExports(append(make([]byte, 3*probeEvery), b...), 3*probeEvery+len(b))
		if !maps.Equal(found, moved) {
			t.Fatalf("%d exports, %d when they lie further behind", len(found), len(moved))
		}
	})
}

// An image says what it exports, or there is an error.
func FuzzKernelImage(f *testing.F) {
	kernel := append(append([]byte("\x7fELF"), make([]byte, 4092)...), sampleTables()...)
	for _, p := range packings(f, string(kernel)) {
		f.Add(p)
		f.Add(boxed(p))
		f.Add(zboot(p))
	}
	f.Add(armImage(sampleTables()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16<<10 {
			return
		}
		image, err := ReadKernelImage(bytes.NewReader(b), "0102")
		if (len(image.Exports) == 0) == (err == nil) {
			t.Fatalf("%d exports, error %v", len(image.Exports), err)
		}
		if image.Certificate != nil && image.Certificate.SerialNumber.Int64() != 0x102 {
			t.Fatalf("certificate %v", image.Certificate.SerialNumber)
		}
	})
}

// boxed is an x86 bzImage around a payload.
func boxed(payload []byte) []byte {
	b := make([]byte, 1024)
	b[bzSetupSects] = 1
	copy(b[bzMagic:], "HdrS")
	binary.LittleEndian.PutUint16(b[bzVersion:], 0x20f)
	binary.LittleEndian.PutUint32(b[bzPayloadLength:], uint32(len(payload)+4))
	return append(append(b, payload...), 0, 0, 0, 0)
}

// zboot is an EFI zboot image around a payload (zboot-header.S).
func zboot(payload []byte) []byte {
	b := make([]byte, 4096)
	copy(b, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(b[zbootOffset:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[zbootSize:], uint32(len(payload)))
	return append(append(b, payload...), 0, 0, 0, 0)
}

// armImage is an arm64 Image with some data (booting.rst).
func armImage(data []byte) []byte {
	b := make([]byte, 4096)
	copy(b, "MZ@\xfa")
	copy(b[armMagicAt:], armMagic)
	return append(b, data...)
}

// A line of /proc/modules that was read, written as the kernel does, reads the
// same.
func FuzzProcModules(f *testing.F) {
	for _, line := range []string{
		"mii 16384 1 e1000, Live 0xffffffffc02d9000\n", "nvidia 56807424 2 nvidia_uvm,nvidia_modeset, Live 0xffffffffc1000000 (POE)\n",
		"loop 40960 0 - Unloading 0x0000000000000000\n", "scsi_debug 1 - [permanent], Loading 0x0 (+)\n", "a 18446744073709551616 -1 - Live",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseLoaded(line)
		if !ok {
			return
		}
		if m.Name == "" || strings.ContainsAny(m.Name, " \n") || slices.Contains(m.Holders, "") {
			t.Fatalf("%+v", m)
		}
		users := "-"
		if len(m.Holders) > 0 {
			users = strings.Join(m.Holders, ",") + ","
		}
		text := fmt.Sprintf("%s %d %d %s %s 0x0", m.Name, m.Size, m.RefCount, users, m.State)
		if m.Taint != "" {
			text += " (" + m.Taint + ")"
		}
		if again, ok := parseLoaded(text + "\n"); !ok || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v\n%+v", m, again)
		}
	})
}

// Every key that is read stands in the text, and its id is what it seems.
func FuzzProcKeys(f *testing.F) {
	f.Add("01f2a5bd I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 3\n" +
		"0d19e5e5 I------     1 perm 1f030000     0     0 asymmetri Debian Secure Boot CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1: X509.rsa bb419ea1 []\n")
	f.Add("1 I 1 perm 0 -1 0 keyring a: b: 1\n2 I 1 2w 0 0 -1 asymmetric : 00: x\n")
	f.Fuzz(func(t *testing.T, text string) {
		rings, keys := parseKeys(text)
		if len(rings)+len(keys) > strings.Count(text, "\n")+1 {
			t.Fatalf("%d keyrings and %d keys in %q", len(rings), len(keys), text)
		}
		for name := range rings {
			if name == "" || !strings.Contains(text, name+": ") {
				t.Fatalf("keyring %q", name)
			}
		}
		for serial, k := range keys {
			if strings.Trim(k.ID, "0123456789abcdef") != "" || k.ID == "" || utf8.ValidString(text) && !strings.Contains(text, k.Description+": "+k.ID+": ") {
				t.Fatalf("key %x: %+v", serial, k)
			}
		}
	})
}
