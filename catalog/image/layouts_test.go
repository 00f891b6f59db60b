package image

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
)

// One image a layout, of real modules, as the vendors pack them.
func TestEveryLayoutIsRecognised(t *testing.T) {
	dummy := realModule(t, release+"/dummy.ko")
	for _, tc := range []struct {
		name    string
		ents    []ent
		want    Want
		layout  string
		release string
		tree    string
	}{
		{"KMM", []ent{{name: "opt/lib/modules/" + release + "/dummy.ko", data: dummy}}, Want{}, "kmm", release, "opt/lib/modules/" + release},
		{"KMM with another directory", []ent{{name: "srv/drv/lib/modules/" + release + "/kmod/dummy.ko", data: dummy}}, Want{}, "kmm", release, "srv/drv/lib/modules/" + release},
		{"plain", []ent{{name: "lib/modules/" + release + "/extra/dummy.ko", data: dummy}}, Want{}, "plain", release, "lib/modules/" + release},
		{"plain on a merged base", []ent{{name: "lib", link: "usr/lib"}, {name: "usr/lib/modules/" + release + "/extra/dummy.ko", data: dummy}}, Want{}, "plain", release, "usr/lib/modules/" + release},
		{"Talos extension", []ent{{name: "manifest.yaml", data: "version: v1alpha1"}, {name: "rootfs/usr/lib/modules/" + release + "/extras/dummy.ko", data: dummy}}, Want{}, "talos", release, "rootfs/usr/lib/modules/" + release},
		{"SUSE BCI", []ent{{name: "opt/open/dummy.ko", data: dummy}, {name: "opt/lib/firmware/nvidia/595/gsp.bin", data: "fw"}}, Want{}, "suse-bci", release, "opt/open"},
		{"SUSE BCI with both flavours", []ent{{name: "opt/open/dummy.ko", data: dummy}, {name: "opt/proprietary/dummy.ko", data: realModule(t, release+"/mii.ko")}}, Want{DirName: "/opt/proprietary"}, "suse-bci", release, "opt/proprietary"},
		{"NVIDIA for RHEL", []ent{{name: "lib", link: "usr/lib"}, {name: "usr/lib/modules/" + release + "/extra/drivers/video/nvidia/dummy.ko", data: dummy}}, Want{}, "nvidia-rhel", release, "usr/lib/modules/" + release},
		{"AMD", []ent{{name: "opt/lib/modules/" + release + "/updates/dkms/dummy.ko", data: dummy}, {name: "firmwareDir/updates/amdgpu/x.bin", data: "fw"}}, Want{}, "amd", release, "opt/lib/modules/" + release},
		{"kmods via containers", []ent{{name: "lib/modules/" + release + "/dummy.ko", data: dummy}}, Want{}, "kvc", release, "lib/modules/" + release},
		{"a release with a plus", []ent{{name: "opt/lib/modules/6.12.117+deb12-amd64/dummy.ko.xz", data: realModule(t, "6.12.117+deb12-amd64/dummy.ko.xz")}}, Want{Releases: []string{"6.12.117+deb12-amd64"}}, "kmm", "6.12.117+deb12-amd64", "opt/lib/modules/6.12.117+deb12-amd64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inv, _, err := fetchLayers(t, tc.want, layerOf(t, tc.ents...))
			require.NoError(t, err)
			require.Equal(t, tc.layout, inv.Layout)
			require.Len(t, inv.Kernels, 1)
			require.Equal(t, tc.release, inv.Kernels[0].Release)
			require.Equal(t, tc.tree, inv.Kernels[0].Tree)
			require.Len(t, inv.Kernels[0].Modules, 1)
			require.NotNil(t, inv.Kernels[0].Modules[0].Info)
		})
	}
}

func withConfig(t testing.TB, img v1.Image, c v1.Config) v1.Image {
	cf, err := img.ConfigFile()
	require.NoError(t, err)
	cf = cf.DeepCopy()
	cf.Config = c
	img, err = mutate.ConfigFile(img, cf)
	require.NoError(t, err)
	return img
}

// What cannot be used says why and what to do instead; what is not known says
// what was found.
func TestUnusableLayoutsSayWhy(t *testing.T) {
	dummy := realModule(t, release+"/dummy.ko")
	for _, tc := range []struct {
		name   string
		ents   []ent
		config v1.Config
		code   Code
		says   string
	}{
		{"Ubuntu's packages", []ent{{name: "usr/local/repos/linux-modules-nvidia-535-server-5.15.0-118-generic_5.15.deb", data: "x"}}, v1.Config{}, UnsupportedLayout, "layout deb"},
		{"NVIDIA's own loader", []ent{{name: "usr/local/bin/nvidia-driver", data: "#!/bin/sh"}}, v1.Config{Entrypoint: []string{"nvidia-driver"}, Cmd: []string{"init"}}, UnsupportedLayout, "layout self-loading"},
		{"MOFED", []ent{{name: "root/entrypoint.sh", data: "x"}}, v1.Config{Entrypoint: []string{"/root/entrypoint.sh"}, Env: []string{"NVIDIA_NIC_DRIVER_VER=24.10"}}, UnsupportedLayout, "layout self-loading"},
		{"an installer", []ent{{name: "opt/NVIDIA-Linux-x86_64.run", data: "x"}}, v1.Config{}, UnsupportedLayout, "layout self-loading"},
		{"a system extension", []ent{{name: "wireguard.raw", data: "x"}}, v1.Config{}, UnsupportedLayout, "layout sysext"},
		{"an unknown place", []ent{{name: "opt/modules/a/dummy.ko", data: dummy}, {name: "opt/modules/b/dummy.ko", data: dummy}, {name: "opt/modules/c/dummy.ko", data: dummy}}, v1.Config{}, UnknownLayout, "3 module files in 3 directories of /opt/modules"},
		{"nothing", []ent{{name: "bin/sh", data: "x"}}, v1.Config{}, UnknownLayout, "no module file among 1 entries"},
	} {
		img, err := openAt(t, "oci:"+asLayout(t, withConfig(t, imageOf(t, layerOf(t, tc.ents...)), tc.config)), Options{})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), t.TempDir()+"/s", Want{})
		require.Equal(t, tc.code, CodeOf(err), "%s: %v", tc.name, err)
		require.ErrorContains(t, err, tc.says, tc.name)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.NotEmpty(t, e.Hint, tc.name)
	}
}

func TestOnlyTheWantedKernelsAreKept(t *testing.T) {
	layer := layerOf(t,
		ent{name: "opt/lib/modules/6.1.0-54-amd64/dummy.ko", data: realModule(t, "6.1.0-54-amd64/dummy.ko")},
		ent{name: "opt/lib/modules/6.1.0-55-amd64/dummy.ko", data: realModule(t, "6.1.0-55-amd64/dummy.ko")},
		ent{name: "opt/lib/modules/6.1.0-57-amd64/dummy.ko", data: realModule(t, "6.1.0-57-amd64/dummy.ko")},
		ent{name: "opt/lib/modules/6.1.0-57-amd64/vmlinuz", data: "a kernel"})
	inv, dir, err := fetchLayers(t, Want{Releases: []string{"6.1.0-57-amd64", "6.1.0-99-amd64"}}, layer)
	require.NoError(t, err)
	require.Len(t, inv.Kernels, 1)
	require.Equal(t, []string{"6.1.0-54-amd64", "6.1.0-55-amd64", "6.1.0-57-amd64"}, inv.Releases)
	require.NoDirExists(t, dir+"/opt/lib/modules/6.1.0-54-amd64")
	require.NoFileExists(t, dir+"/opt/lib/modules/6.1.0-57-amd64/vmlinuz")

	inv, _, err = fetchLayers(t, Want{}, layer)
	require.NoError(t, err)
	require.Len(t, inv.Kernels, 3)
}

// A trailing plus is trimmed by KMM's builds; an image for one other kernel is
// kept for its symbols to be judged.
func TestDirectoriesThatAreNotTheReleaseToTheLetter(t *testing.T) {
	dummy := realModule(t, release+"/dummy.ko")
	inv, _, err := fetchLayers(t, Want{Releases: []string{"5.10.133+"}}, layerOf(t, ent{name: "opt/lib/modules/5.10.133/dummy.ko", data: dummy}, ent{name: "opt/lib/modules/5.10.1/dummy.ko", data: dummy}))
	require.NoError(t, err)
	require.Len(t, inv.Kernels, 1)
	require.Equal(t, "5.10.133", inv.Kernels[0].Release)

	inv, _, err = fetchLayers(t, Want{Releases: []string{"6.4.0-150700.53.6-default"}}, layerOf(t, ent{name: "opt/lib/modules/6.4.0-150700.51-default/updates/dummy.ko", data: dummy}))
	require.NoError(t, err)
	require.Equal(t, "6.4.0-150700.51-default", inv.Kernels[0].Release)
}

// Firmware is listed by the name a driver asks for, never one directory too
// deep.
func TestFirmwareNamesAreWhatTheKernelAsksFor(t *testing.T) {
	mod := ent{name: "opt/lib/modules/" + release + "/dummy.ko", data: realModule(t, release+"/dummy.ko")}
	for _, tc := range []struct {
		ents []ent
		want Want
		name []string
	}{
		{[]ent{{name: "firmware/i915/dg2_guc_70.bin", data: "fw"}}, Want{}, []string{"i915/dg2_guc_70.bin"}},
		{[]ent{{name: "vendor/fw/i915/dg2.bin", data: "fw"}}, Want{Firmware: "/vendor/fw"}, []string{"i915/dg2.bin"}},
		{[]ent{{name: "opt/lib/firmware/nvidia/565.57.01/gsp_tu10x.bin", data: "fw"}, {name: "opt/lib/firmware/nvidia/565.57.01/gsp_ga10x.bin", data: "fw"}}, Want{}, []string{"nvidia/565.57.01/gsp_ga10x.bin", "nvidia/565.57.01/gsp_tu10x.bin"}},
		{[]ent{{name: "lib", link: "usr/lib"}, {name: "usr/lib/firmware/qcom/adsp.mbn.zst", data: "fw"}}, Want{}, []string{"qcom/adsp.mbn"}},
		{[]ent{{name: "firmware/x/real.bin", data: "fw"}, {name: "firmware/x/alias.bin", link: "real.bin"}}, Want{}, []string{"x/alias.bin", "x/real.bin"}},
		{[]ent{{name: "firmware/x/real.bin", data: "fw"}}, Want{Firmware: "-"}, nil},
	} {
		inv, _, err := fetchLayers(t, tc.want, layerOf(t, append(tc.ents, mod)...))
		require.NoError(t, err)
		var names []string
		for _, f := range inv.Firmware {
			names = append(names, f.Name)
			require.EqualValues(t, 2, f.Size)
		}
		require.Equal(t, tc.name, names)
	}
}

func TestLicenceTextsAreFoundAndDigested(t *testing.T) {
	mod := ent{name: "opt/lib/modules/" + release + "/dummy.ko", data: realModule(t, release+"/dummy.ko")}
	long := make([]byte, 10_000)
	for i := range long {
		long[i] = 'l'
	}
	layer := layerOf(t, mod, ent{name: "licenses/LICENSE", data: "terms"}, ent{name: "licenses/copy", data: "terms"}, ent{name: "EULA.txt", data: string(long)},
		ent{name: "usr/share/doc/bash/COPYING", data: "not ours"}, ent{name: "licenses/logo.png", data: "\xff\xfe\x00"})
	inv, _, err := fetchLayers(t, Want{Licences: true}, layer)
	require.NoError(t, err)
	require.Len(t, inv.Licences, 2)
	require.Equal(t, Licence{Path: "licenses/LICENSE", Text: "terms", Digest: "sha256:51d2361f4faea3bc8f9facdbc7d99abb555596a2e51f7b25fd3b41c93587e616"}, Licence{inv.Licences[1].Path, inv.Licences[1].Digest, inv.Licences[1].Text})

	inv, _, err = fetchLayers(t, Want{LicenceFile: "/usr/share/doc/bash/COPYING"}, layer)
	require.NoError(t, err)
	require.Len(t, inv.Licences, 1)
	require.Equal(t, "not ours", inv.Licences[0].Text)
}
