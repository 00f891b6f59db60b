package installed

import (
	"fmt"
	"os"
	"path/filepath"

	"fitout/testdata/program"
	"fitout/testdata/vm"
)

// TakeOut is a boot loader's last step: it takes a kernel and an initramfs, by
// their paths on the disk, out of it into dir.
func TakeOut(disk, dir, kernel, initramfs, options string) (vm.Boot, error) {
	boot := vm.Boot{Kernel: filepath.Join(dir, "boot-kernel"), Initramfs: filepath.Join(dir, "boot-initramfs"), Options: options}
	for from, to := range map[string]string{kernel: boot.Kernel, initramfs: boot.Initramfs} {
		os.Remove(to)
		if _, err := Debugfs(disk, "dump "+from+" "+to); err != nil {
			return vm.Boot{}, err
		}
		if st, err := os.Stat(to); err != nil || st.Size() == 0 {
			return vm.Boot{}, fmt.Errorf("the disk's boot loader leads to %s, which is not there", from)
		}
	}
	return boot, nil
}

// Debugfs asks a disk that nobody has open, as debugfs(8) does.
func Debugfs(disk, request string) (string, error) {
	return program.Output("debugfs", "-R", request, disk)
}
