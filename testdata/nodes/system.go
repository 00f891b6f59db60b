package nodes

// system writes what is not hardware: the OS, the kernel's name, its module
// tables, where the root is. The tables have the form depmod of kmod 30 gives
// them; the module files they name are not there.
func (b *builder) system() {
	dir := "lib/modules/" + Release + "/"
	for name, content := range map[string]string{
		"etc/os-release":                            `PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"` + "\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n",
		"etc/hostname":                              "node-1\n",
		"etc/fstab":                                 "/dev/nvme0n1p1 / ext4 defaults 0 1\n",
		"proc/sys/kernel/osrelease":                 Release + "\n",
		"proc/sys/kernel/hostname":                  "node-1\n",
		"proc/sys/kernel/random/boot_id":            "5a4f2f6e-6a54-4a55-8f4a-4f1f1d2c7e10\n",
		"proc/version":                              "Linux version " + Release + " (debian-kernel@lists.debian.org)\n",
		"proc/cmdline":                              "BOOT_IMAGE=/boot/vmlinuz-" + Release + " root=/dev/nvme0n1p1 ro quiet\n",
		"proc/mounts":                               "/dev/nvme0n1p1 / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\n",
		"proc/self/mountinfo":                       "24 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p1 rw\n",
		"proc/swaps":                                "Filename\tType\tSize\tUsed\tPriority\n",
		"boot/vmlinuz-" + Release:                   "",
		dir + "modules.builtin":                     "kernel/drivers/pci/pcie/pcieportdrv.ko\n",
		dir + "modules.builtin.modinfo":             "pcieportdrv.file=drivers/pci/pcie/pcieportdrv\x00pcieportdrv.alias=pci:v*d*sv*sd*bc06sc04i00*\x00",
		dir + "modules.order":                       "kernel/drivers/nvme/host/nvme-core.ko\nkernel/drivers/nvme/host/nvme.ko\nkernel/drivers/net/virtio_net.ko\n",
		dir + "modules.dep":                         "kernel/drivers/nvme/host/nvme-core.ko:\nkernel/drivers/nvme/host/nvme.ko: kernel/drivers/nvme/host/nvme-core.ko\nkernel/drivers/net/virtio_net.ko:\n",
		dir + "modules.alias":                       "# Aliases extracted from modules themselves.\nalias pci:v*d*sv*sd*bc01sc08i02* nvme\nalias virtio:d00000001v* virtio_net\n",
		dir + "modules.softdep":                     "# Soft dependencies extracted from modules themselves.\n",
		dir + "modules.symbols":                     "# Aliases for symbols, used by symbol_request().\n",
		"sys/module/firmware_class/parameters/path": "\n",
	} {
		b.file(name, content)
	}
}
