package module

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// fuzzLimits keep one input cheap.
var fuzzLimits = Limits{MaxSize: 1 << 20, MaxWindow: 1 << 20}

func seeds(f *testing.F) (plain [][]byte) {
	for _, name := range []string{"6.1.0-57-amd64/dummy.ko", "6.1.0-57-amd64/rm3100-spi.ko", "6.1.0-57-amd64/idxd_bus.ko"} {
		plain = append(plain, real(f, name))
	}
	return plain
}

func FuzzRead(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Add(real(f, "6.12.117+deb12-amd64/dummy.ko.xz"))
	f.Add(withModinfo("softdep=pre: a\x00parm=x:y\x00").bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Read(bytes.NewReader(b), "fuzz.ko", fuzzLimits)
		if err != nil {
			var file *FileError
			if !errors.As(err, &file) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if i.Size > fuzzLimits.MaxSize {
			t.Fatalf("%d bytes got past the limit", i.Size)
		}
	})
}

func FuzzModinfo(f *testing.F) {
	f.Add([]byte("softdep=pre: a post: b\x00alias=pci:*\x00parm=a:b\x00parmtype=a:int\x00depends=x,y\x00name=n\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		var i Info
		i.parseModinfo(b)
		for _, d := range append(append(i.Depends, i.SoftPre...), i.SoftPost...) {
			if d == "" || d != Normalize(d) {
				t.Fatalf("name %q", d)
			}
		}
	})
}

func FuzzPKCS7(f *testing.F) {
	for _, b := range seeds(f) {
		_, sig, _ := appended(f, b)
		f.Add(sig)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, bad := parsePKCS7(b)
		if (s == nil) == (bad == nil) {
			t.Fatal("either a signature or what is wrong with it")
		}
	})
}

func FuzzDecompress(f *testing.F) {
	b := real(f, "6.1.0-57-amd64/idxd_bus.ko")
	f.Add(pack(f, b, Gzip))
	f.Add(pack(f, b, Zstd))
	f.Add(real(f, "6.12.117+deb12-amd64/dummy.ko.xz"))
	f.Add(xzPack(f, []byte("hello"), xz.WriterConfig{CheckSum: xz.CRC64, BlockSize: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, packed, _, err := unpack(bytes.NewReader(b), fuzzLimits.MaxWindow)
		if err != nil {
			return
		}
		_, err = (&room{}).fill(r, fuzzLimits.MaxSize, 0)
		if err != nil && packed != Plain && !errors.Is(err, ErrPacked) && !errors.Is(err, ErrWindow) && !errors.Is(err, ErrTooBig) {
			t.Fatalf("untyped error: %v", err)
		}
	})
}

// FuzzXZ holds the container reader to the one of package xz: what both read
// is the same.
func FuzzXZ(f *testing.F) {
	f.Add(xzPack(f, []byte("hello, hello"), xz.WriterConfig{CheckSum: xz.CRC64, BlockSize: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if Sniff(b) != XZ {
			return
		}
		r, _, _, err := unpack(bytes.NewReader(b), fuzzLimits.MaxWindow)
		if err != nil {
			return
		}
		got, err := (&room{}).fill(r, fuzzLimits.MaxSize, 0)
		if err != nil {
			return
		}
		peer, err := xz.NewReader(bytes.NewReader(b))
		if err != nil {
			return // it knows fewer check types
		}
		want, err := io.ReadAll(io.LimitReader(peer, fuzzLimits.MaxSize))
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, the other reader has %d", len(got), len(want))
		}
	})
}

// FuzzLZMA2 goes below the container, whose sums keep most inputs away from
// the decoder.
func FuzzLZMA2(f *testing.F) {
	for _, text := range []string{"hello, hello, hello", string(real(f, "6.1.0-57-amd64/idxd_bus.ko"))[:6000]} {
		var out bytes.Buffer
		w, err := lzma.Writer2Config{DictCap: 4096}.NewWriter2(&out)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			f.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(io.LimitReader(newLZMA2(bytes.NewReader(b), 4096), fuzzLimits.MaxSize))
		if err != nil {
			return
		}
		peer, err := lzma.Reader2Config{DictCap: 4096}.NewReader2(bytes.NewReader(b))
		if err != nil {
			return
		}
		want, err := io.ReadAll(io.LimitReader(peer, fuzzLimits.MaxSize))
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, the other reader has %d", len(got), len(want))
		}
	})
}

func FuzzMatchAlias(f *testing.F) {
	f.Add("pci:v00008086d*sv*[0-9]bc02sc00i*", "pci:v00008086d000010D3sv00008086sd0bc02sc00i00")
	f.Add("[!a-]\\*?", "b*-")
	f.Fuzz(func(t *testing.T, pattern, alias string) {
		if len(pattern) > 100 || len(alias) > 100 {
			return
		}
		if got, want := MatchAlias(pattern, alias), slowMatch(pattern, alias); got != want {
			t.Fatalf("%q on %q: %v, by definition %v", pattern, alias, got, want)
		}
	})
}

// slowMatch is the definition: a star takes nothing, or one byte and stays.
// What was answered once is kept, or ten stars would take minutes.
func slowMatch(pattern, s string) bool {
	type question struct{ pattern, rest int }
	known := map[question]bool{}
	var match func(pattern, s string) bool
	match = func(pattern, s string) (matches bool) {
		q := question{len(pattern), len(s)}
		if answer, ok := known[q]; ok {
			return answer
		}
		defer func() { known[q] = matches }()
		switch {
		case pattern == "":
			return s == ""
		case pattern[0] == '*':
			return match(pattern[1:], s) || s != "" && match(pattern, s[1:])
		case s == "":
			return false
		}
		n, ok := matchOne(pattern, s[0])
		return ok && match(pattern[n:], s[1:])
	}
	return match(pattern, s)
}

func BenchmarkReadFile(b *testing.B) {
	for _, c := range []struct {
		name, file string
		lim        Limits
	}{
		{"light", "6.1.0-57-amd64/e100.ko", Limits{Only: Light}},
		{"full", "6.1.0-57-amd64/e100.ko", Limits{}},
		{"xz", "6.12.117+deb12-amd64/mii.ko.xz", Limits{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadFile(filepath.Join(modulesDir, c.file), c.lim); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMatchAlias(b *testing.B) {
	for b.Loop() {
		MatchAlias("pci:v00008086d000010D3sv*sd*bc02sc00i*", "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00")
	}
}
