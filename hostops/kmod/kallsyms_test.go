package kmod_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
	"fitout/hostops/kmod"
)

func TestExportsAreReadFromTheKernelsOwnList(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc"), 0o755))
	n := hostops.At(root, nil)
	require.Nil(t, kmod.Exported(n), "a kernel that does not tell")
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "proc/kallsyms"), []byte(text), 0o444))
	}
	write("ffffffff815a6590 T pci_request_selected_regions_exclusive\n")
	require.Nil(t, kmod.Exported(n), "a kernel without CONFIG_KALLSYMS_ALL")
	// From Debian's 6.1.0-57-amd64.
	write("ffffffff815a6590 T pci_request_selected_regions_exclusive\n" +
		"ffffffff8246bfcc r __ksymtab_pci_request_selected_regions_exclusive\n" +
		"ffffffffc03e2340 r __ksymtab_nvme_wq\t[nvme_core]\n" +
		"0000000000000000 r __kstrtab_ignored")
	require.Equal(t, map[string]bool{"pci_request_selected_regions_exclusive": true, "nvme_wq": true}, kmod.Exported(n))
}
