package images

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fitout/testdata/vm/debian"
)

// Layout is an image as one vendor packs it, with a driver that loads.
type Layout struct {
	// Name says whose; Recognised is fitout's word for it.
	Name, Recognised string
	// Driver is the module that drives the device Device ("1234:11e8").
	Driver, Device string
	// DirName and Firmware are what a catalog entry has to say of the image.
	DirName, Firmware string
	// Other: the modules say that they were built for another release.
	Other  bool
	Config v1.Config
	Files  []File
}

// Image makes the image.
func (l Layout) Image() (v1.Image, error) { return Of(l.Config, l.Files...) }

const nvmeID = "1b36:0010"

// Layouts are images of every layout that can be used, for one kernel: the
// driver of the educational device as a vendor's, or Debian's own modules.
// What each vendor does was read in their build recipes: KMM's documentation
// (kernel-module-management de3f8c9), Intel's Dockerfile
// (intel-data-center-gpu-driver-for-openshift 320dee0), siderolabs/extensions,
// BCI-dockerfile-generator bcb9ba847, gpu-driver-container 06a208c,
// kmods-via-containers dd1ec63, ublue-os/akmods 4ccd2e3.
func Layouts(k debian.Kernel) ([]Layout, error) {
	edu, err := Edu(k)
	if err != nil {
		return nil, err
	}
	ga := otherRelease(k.Release)
	old, err := BuiltFor(edu, k.Release, ga)
	if err != nil {
		return nil, err
	}
	oldZstd, err := Zstd(old)
	if err != nil {
		return nil, err
	}
	nvme, err := debianModule(k, "nvme")
	if err != nil {
		return nil, err
	}
	akmod, err := akmods(k, edu)
	if err != nil {
		return nil, err
	}
	kmp, err := kmp(ga, oldZstd)
	if err != nil {
		return nil, err
	}
	blob := func(dir string) File { return File{Name: dir + "/" + EduFirmware, Data: []byte("firmware")} }
	usrmerge := File{Name: "lib", Link: "usr/lib"}
	linked := func(target string) []File {
		return []File{{Name: "opt/lib/modules/" + k.Release + "/kernel/drivers/nvme/host/nvme.ko", Data: nvme},
			{Name: "opt/lib/modules/" + k.Release + "/host", Link: target + k.Release}}
	}
	list := []Layout{
		{Name: "KMM, the host's modules at /host/lib/modules", Recognised: "kmm", Driver: "nvme", Device: nvmeID, Files: linked("/host/lib/modules/")},
		{Name: "KMM, the host's modules at /lib/modules", Recognised: "kmm", Driver: "nvme", Device: nvmeID, Files: linked("/lib/modules/")},
		{Name: "KMM, with a dirName", Recognised: "kmm", DirName: "/srv/drv", Firmware: "/vendor/fw",
			Files: []File{{Name: "srv/drv/lib/modules/" + k.Release + "/edu.ko", Data: edu}, blob("vendor/fw")}},
		{Name: "plain", Recognised: "plain", Files: []File{{Name: "lib/modules/" + k.Release + "/extra/edu/edu.ko", Data: edu}, blob("lib/firmware")}},
		{Name: "Talos extension", Recognised: "talos", Files: []File{{Name: "manifest.yaml", Data: []byte("version: v1alpha1\nmetadata: {name: edu}\n")},
			{Name: "rootfs/usr/lib/modules/" + k.Release + "/extras/edu.ko", Data: edu}, blob("rootfs/usr/lib/firmware")}},
		{Name: "SUSE BCI", Recognised: "suse-bci", DirName: "/opt/open", Firmware: "/opt/lib/firmware", Other: true,
			Files: []File{{Name: "opt/open/edu.ko.zst", Data: oldZstd}, {Name: "opt/proprietary/edu.ko", Data: edu}, blob("opt/lib/firmware")}},
		{Name: "NVIDIA precompiled for RHEL", Recognised: "nvidia-rhel", Firmware: "/opt/lib/firmware",
			Files: []File{usrmerge, {Name: "usr/lib/modules/" + k.Release + "/extra/drivers/video/nvidia/edu.ko", Data: edu}, blob("opt/lib/firmware")}},
		{Name: "AMD", Recognised: "amd", Firmware: "/firmwareDir/updates", Other: true,
			Files: []File{{Name: "opt/lib/modules/" + ga + "/updates/dkms/edu.ko", Data: old}, blob("firmwareDir/updates")}},
		{Name: "kmods-via-containers", Recognised: "kvc", Files: []File{{Name: "lib/modules/" + k.Release + "/edu.ko", Data: edu}, blob("lib/firmware")},
			Config: v1.Config{Cmd: []string{"/usr/bin/bash"}}},
		{Name: "Universal Blue's akmods", Recognised: "rpm", Files: []File{akmod, blob("usr/lib/firmware")}},
		{Name: "a SUSE kernel module package", Recognised: "rpm", Other: true, Files: []File{kmp, blob("lib/firmware")}},
	}
	for i := range list {
		if list[i].Driver == "" {
			list[i].Driver, list[i].Device = "edu", EduID
		}
	}
	return list, nil
}

// akmods is a package as akmodsbuild makes it for Fedora: the kernel is in the
// name, the payload zstd, the module xz.
func akmods(k debian.Kernel, edu []byte) (File, error) {
	packed, err := XZ(edu)
	if err != nil {
		return File{}, err
	}
	f, err := RPM{Name: "kmod-edu-" + k.Release, Version: "1.0", Release: "1.fc42", Payload: "w19.zstdio",
		Files: []File{{Name: "usr/lib/modules/" + k.Release + "/extra/edu/edu.ko.xz", Data: packed}}}.Build()
	f.Name = "rpms/kmods/" + f.Name
	return f, err
}

// kmp is a package as SUSE's kernel-module-subpackage makes it: the release of
// the kernel that it was built for is in the version, the payload xz.
func kmp(release string, edu []byte) (File, error) {
	f, err := RPM{Name: "edu-kmp-default", Version: "1.0_k6.1.0", Release: "1.1", Payload: "w6.xzdio",
		Files: []File{{Name: "lib/modules/" + release + "/updates/edu.ko.zst", Data: edu}}}.Build()
	f.Name = "rpms/" + f.Name
	return f, err
}

// otherRelease is a release of the same kernel that nobody boots.
func otherRelease(release string) string {
	if release == "6.1.0-1-amd64" {
		return "6.1.0-2-amd64"
	}
	return "6.1.0-1-amd64"
}

func debianModule(k debian.Kernel, name string) ([]byte, error) {
	rel, err := k.Module(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(k.Modules(), rel))
}

// Refused is an image that cannot be used by taking files out of it.
type Refused struct {
	Name string
	// Says is in the reason, Cure in the way out.
	Says, Cure string
	Config     v1.Config
	Files      []File
}

// Image makes the image.
func (r Refused) Image() (v1.Image, error) { return Of(r.Config, r.Files...) }

// RefusedLayouts are images of the layouts that are refused, and one of none.
func RefusedLayouts(k debian.Kernel) ([]Refused, error) {
	edu, err := Edu(k)
	if err != nil {
		return nil, err
	}
	file := func(name string) File { return File{Name: name, Data: []byte("its content does not matter")} }
	var odd []File
	for i := range 3 {
		odd = append(odd, File{Name: fmt.Sprintf("opt/modules/%d/edu.ko", i), Data: edu})
	}
	return []Refused{
		{Name: "Canonical's packages", Says: "it carries Debian packages that are linked and signed when they are installed", Cure: "run the vendor's container",
			Files: []File{file("usr/local/repos/linux-objects-nvidia-535-server-5.15.0-118-generic_5.15.0-118.128_amd64.deb"),
				file("usr/local/repos/linux-signatures-nvidia-5.15.0-118-generic_5.15.0-118.128_amd64.deb")},
			Config: v1.Config{Entrypoint: []string{"nvidia-driver", "init"}}},
		{Name: "NVIDIA's container that builds", Says: "builds and loads the driver itself", Cure: "precompiled image",
			Files: []File{file("usr/local/bin/nvidia-driver"), file("drivers/NVIDIA-Linux-x86_64-570.148.08.run")}, Config: v1.Config{Entrypoint: []string{"nvidia-driver", "init"}}},
		{Name: "MOFED", Says: "builds and loads the driver itself", Cure: "precompiled image",
			Files: []File{file("root/entrypoint.sh")}, Config: v1.Config{Entrypoint: []string{"/root/entrypoint.sh"}, Cmd: []string{"sources"}, Env: []string{"NVIDIA_NIC_DRIVER_VER=24.10-1.1.4.0"}}},
		{Name: "a system extension", Says: "a system extension as a disk image (.raw)", Cure: "systemd-sysext", Files: []File{file("edu.raw")}},
		{Name: "modules in a place of its own", Says: "3 module files in 3 directories of /opt/modules", Cure: "image pack", Files: odd},
	}, nil
}
