package module

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Several softdep lines for one module are all in force; so are repeated
// aliases, firmware and parameters.
func TestOnlyOneOfSeveralSoftdepLinesCounts(t *testing.T) {
	i, err := readBytes(withModinfo("softdep=pre: a\x00softdep=pre: b c-d post: z\x00\x00\x00softdep=post: d\x00"+
		"alias=pci:a\x00alias=pci:b\x00firmware=x.bin\x00firmware=y.bin\x00depends=m-n,o\x00weakdep=w-1 w2\x00").bytes(), "x.ko")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c_d"}, i.SoftPre)
	require.Equal(t, []string{"z", "d"}, i.SoftPost)
	require.Equal(t, []string{"pci:a", "pci:b"}, i.Aliases)
	require.Equal(t, []string{"x.bin", "y.bin"}, i.Firmware)
	require.Equal(t, []string{"m_n", "o"}, i.Depends)
	require.Equal(t, []string{"w_1", "w2"}, i.WeakDeps)

	real57, err := readBytes(real(t, "6.1.0-57-amd64/libcrc32c.ko"), "libcrc32c.ko")
	require.NoError(t, err)
	require.Equal(t, []string{"crc32c"}, real57.SoftPre)
}

func TestParametersWithAndWithoutDescription(t *testing.T) {
	i, err := readBytes(withModinfo("parmtype=a:int\x00parm=a:how: many\x00parm=b:only text\x00parmtype=c:array of charp\x00").bytes(), "x.ko")
	require.NoError(t, err)
	require.Equal(t, []Parameter{
		{"a", "int", "how: many"}, {"b", "", "only text"}, {"c", "array of charp", ""},
	}, i.Parameters)
}

func TestOddModinfoIsReadAsFarAsItGoes(t *testing.T) {
	i, err := readBytes(withModinfo("no equals sign\x00=value\x00license=GPL\x00license=Proprietary\x00supported=external\x00vermagic=cut").bytes(), "snd-x.ko.zst")
	require.NoError(t, err)
	require.Equal(t, "GPL", i.License, "the first one counts, as in the kernel")
	require.Equal(t, "external", i.Supported)
	require.Equal(t, "cut", i.Vermagic)
	require.Equal(t, "snd_x", i.Name, "no name= inside: the file's name")
	require.False(t, i.HasCRCs)
	require.False(t, i.InTree)
}

func TestNames(t *testing.T) {
	for file, want := range map[string]string{
		"updates/snd-hda-intel.ko.xz": "snd_hda_intel", "/a/b/e100.ko": "e100", "x.ko.zst": "x", "y.ko.gz": "y",
		"falco_probe": "falco_probe", "notes.gz": "notes.gz",
	} {
		require.Equal(t, want, NameOf(file))
	}
	require.True(t, IsModuleFile("a.ko.zst"))
	require.False(t, IsModuleFile("modules.dep"))
	require.False(t, IsModuleFile("a.ko.sig"))
}

// The rules are fnmatch(3) without flags, as modprobe uses it.
func TestMatchAliasAsModprobe(t *testing.T) {
	nic := "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00"
	for _, c := range []struct {
		pattern, alias string
		want           bool
	}{
		{"pci:v00008086d000010D3sv*sd*bc02sc00i*", nic, true},
		{"pci:v00008086d000010D3sv*sd*bc*sc*i*", nic, true},
		{"pci:v00008086d000010D3sv00001028sd*bc*sc*i*", nic, false},
		{"pci:v*d*sv*sd*bc02sc00i00*", nic, true},
		{"pci:v*d*sv*sd*bc03sc*i*", nic, false},
		{"pci:v00008086d000010d3sv*sd*bc*sc*i*", nic, false}, // case matters
		{"pci:v0000808?d*", nic, true},
		{"*", nic, true}, {"", nic, false}, {"", "", true}, {"*", "", true}, {"?", "", false},
		{"a*b*c", "aXbXbXc", true}, {"a*b*c", "aXbXbX", false}, {"a**", "a", true},
		{"of:N*T*Cvendor,snd-card", "of:NxT(null)Cvendor,snd_card", true}, // '-' is '_'
		{"dmi*:svn[A-C]*:", "dmi:svnBob:", true}, {"dmi*:svn[!A-C]*:", "dmi:svnBob:", false},
		{"[a-]x", "-x", true}, {"[]a]", "]", true}, {"[!]a]", "]", false}, {"[^b]", "a", true},
		{"[abc", "[abc", true}, {"[abc", "a", false}, {"[\\]]", "]", true},
		{`a\*b`, "a*b", true}, {`a\*b`, "aXb", false}, {`a\`, "a", false},
		{"usb:v*/x*", "usb:v1/xy", true}, {"*a", "b/a", true},
	} {
		require.Equal(t, c.want, MatchAlias(c.pattern, c.alias), "%s on %s", c.pattern, c.alias)
	}
}
