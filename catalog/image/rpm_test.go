package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cavaliergopher/rpm"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// rpmHeaderOf writes one header structure of string tags.
func rpmHeaderOf(tags map[uint32]string, pad bool) []byte {
	var index, store bytes.Buffer
	for _, t := range []uint32{1000, 1001, 1002, tagFormat, tagCompressor} {
		v, ok := tags[t]
		if !ok {
			continue
		}
		binary.Write(&index, binary.BigEndian, []uint32{t, typeString, uint32(store.Len()), 1})
		store.WriteString(v + "\x00")
	}
	var b bytes.Buffer
	b.Write(append(rpmHeaderMagic, 0, 0, 0, 0))
	binary.Write(&b, binary.BigEndian, []uint32{uint32(index.Len() / 16), uint32(store.Len())})
	b.Write(index.Bytes())
	b.Write(store.Bytes())
	if pad {
		b.Write(make([]byte, (8-store.Len()%8)%8))
	}
	return b.Bytes()
}

type cpioFileOf struct {
	name, data string
	mode       uint32
}

func cpioOf(files ...cpioFileOf) []byte {
	var b bytes.Buffer
	put := func(f cpioFileOf) {
		fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 1, f.mode, 0, 0, 1, 0, len(f.data), 0, 0, 0, 0, len(f.name)+1, 0)
		b.WriteString(f.name + "\x00")
		b.Write(make([]byte, pad4(int64(b.Len()))))
		b.WriteString(f.data)
		b.Write(make([]byte, pad4(int64(b.Len()))))
	}
	for _, f := range files {
		put(f)
	}
	put(cpioFileOf{name: "TRAILER!!!"})
	return b.Bytes()
}

// rpmOf writes a package as rpmbuild lays one out.
func rpmOf(t testing.TB, compression string, files ...cpioFileOf) string {
	lead := make([]byte, rpmLead)
	copy(lead, append(append([]byte{}, rpmLeadMagic...), 3, 0))
	out := bytes.NewBuffer(lead)
	out.Write(rpmHeaderOf(map[uint32]string{1000: "signature"}, true))
	out.Write(rpmHeaderOf(map[uint32]string{1000: "kmod-test", 1001: "1", 1002: "1", tagFormat: "cpio", tagCompressor: compression}, false))
	var z io.WriteCloser
	var err error
	switch compression {
	case "zstd":
		z, err = zstd.NewWriter(out)
	case "xz":
		z, err = xz.NewWriter(out)
	}
	require.NoError(t, err)
	_, err = z.Write(cpioOf(files...))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}

func TestTestPackagesAreReadByALibraryToo(t *testing.T) {
	p, err := rpm.Read(bytes.NewReader([]byte(rpmOf(t, "zstd", cpioFileOf{name: "./x", mode: cpioFile}))))
	require.NoError(t, err)
	require.Equal(t, []string{"kmod-test", "cpio", "zstd"}, []string{p.Name(), p.PayloadFormat(), p.PayloadCompression()})
}

func TestModulesAreReadOutOfPackages(t *testing.T) {
	dummy, mii := realModule(t, release+"/dummy.ko"), realModule(t, release+"/mii.ko")
	one := rpmOf(t, "zstd", cpioFileOf{"./usr/lib/modules/" + release + "/extra/dummy/dummy.ko", dummy, cpioFile | 0o644},
		cpioFileOf{"./usr/lib/modules/" + release + "/extra", "", 0o40755}, cpioFileOf{"./usr/share/doc/x", "no", cpioFile | 0o644})
	two := rpmOf(t, "xz", cpioFileOf{"./lib/modules/" + release + "/updates/mii.ko", mii, cpioFile | 0o644},
		cpioFileOf{"./lib/modules/" + release + "/weak-updates/mii.ko", "/lib/modules/" + release + "/updates/mii.ko", cpioLink | 0o777})
	layer := layerOf(t, ent{name: "rpms/kmods/kmod-dummy-6.1.rpm", data: one}, ent{name: "rpms/kmods/mii-kmp-default-1.rpm", data: two},
		ent{name: "rpms/kmods/other.rpm", data: "no package"})
	inv, dir, err := fetchLayers(t, Want{}, layer)
	require.NoError(t, err)
	require.Equal(t, "rpm", inv.Layout)
	require.Len(t, inv.Kernels, 1)
	require.Equal(t, release, inv.Kernels[0].Release)
	require.Equal(t, []string{
		"rpms/kmods/kmod-dummy-6.1.rpm.d/usr/lib/modules/" + release + "/extra/dummy/dummy.ko",
		"rpms/kmods/mii-kmp-default-1.rpm.d/lib/modules/" + release + "/updates/mii.ko",
	}, paths(inv.Kernels[0]))
	require.NoFileExists(t, dir+"/rpms/kmods/kmod-dummy-6.1.rpm", "the package itself is not stored")
}

// A driver's package may bring its firmware, compressed or under several names.
func TestFirmwareIsReadOutOfPackages(t *testing.T) {
	pkg := rpmOf(t, "zstd", cpioFileOf{"./lib/modules/" + release + "/extra/e100.ko", realModule(t, release+"/e100.ko"), cpioFile | 0o644},
		cpioFileOf{"./usr/lib/firmware/e100/d101m_ucode.bin.xz", "packed", cpioFile | 0o644},
		cpioFileOf{"./lib/firmware/e100/d101s_ucode.bin", "plain", cpioFile | 0o644},
		cpioFileOf{"./lib/firmware/e100/d102e_ucode.bin", "/lib/firmware/e100/d101s_ucode.bin", cpioLink | 0o777},
		cpioFileOf{"./lib/firmware/e100/new.bin", "d101s_ucode.bin", cpioLink | 0o777})
	layer := layerOf(t, ent{name: "rpms/kmod-e100.rpm", data: pkg}, ent{name: "usr/lib/firmware/e100/other.bin", data: "beside"})
	inv, dir, err := fetchLayers(t, Want{}, layer)
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range inv.Firmware {
		raw, err := os.ReadFile(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		require.Len(t, raw, int(f.Size))
		got[f.Name] = string(raw)
	}
	require.Equal(t, map[string]string{"e100/d101m_ucode.bin": "packed", "e100/d101s_ucode.bin": "plain", "e100/d102e_ucode.bin": "plain",
		"e100/new.bin": "plain", "e100/other.bin": "beside"}, got)
	inv, _, err = fetchLayers(t, Want{Firmware: "-"}, layer)
	require.NoError(t, err)
	require.Empty(t, inv.Firmware)
}

func TestHostilePackagesAreRefused(t *testing.T) {
	good := rpmOf(t, "zstd", cpioFileOf{"./lib/modules/" + release + "/dummy.ko", realModule(t, release+"/dummy.ko"), cpioFile})
	huge := []byte(good)
	binary.BigEndian.PutUint32(huge[rpmLead+8:], 1<<31)
	for _, tc := range []struct {
		name, data string
		code       Code
	}{
		{"no package", "text", Corrupt},
		{"cut in the header", good[:120], Corrupt},
		{"cut in the payload", good[:len(good)/2], Corrupt},
		{"a header of 2^31 tags", string(huge), Corrupt},
		{"climbs out", rpmOf(t, "xz", cpioFileOf{"../../../../etc/x.ko", "x", cpioFile}), Hostile},
		{"a link out", rpmOf(t, "xz", cpioFileOf{"./lib/firmware/x.bin", "../../../../../../etc/shadow", cpioLink | 0o777}), Hostile},
		{"an unknown compression", string(bytes.Replace([]byte(good), []byte("cpio\x00zstd"), []byte("cpio\x00zzzz"), 1)), Corrupt},
	} {
		_, _, err := fetchLayers(t, Want{}, layerOf(t, ent{name: "rpms/kmod-x.rpm", data: tc.data}))
		require.Equal(t, tc.code, CodeOf(err), "%s: %v", tc.name, err)
		require.ErrorContains(t, err, "kmod-x.rpm", tc.name)
	}
}
