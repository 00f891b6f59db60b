package kmod

import (
	"bufio"
	"strings"

	"fitout/hostops"
)

// Exported lists the symbols that the running kernel and its loaded modules
// export: a kernel with CONFIG_KALLSYMS_ALL names the entry __ksymtab_NAME of
// each in /proc/kallsyms (include/linux/export.h). The versions are not there.
// Nil when the kernel does not tell, or the file cannot be read.
func Exported(n *hostops.Node) map[string]bool {
	f, err := n.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	var found map[string]bool
	lines := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		// ffffffff8246bfcc r __ksymtab_pci_enable_device	[module]
		if _, name, ok := strings.Cut(line, " __ksymtab_"); ok {
			name, _, _ = strings.Cut(strings.TrimSpace(name), "\t")
			if found == nil {
				found = make(map[string]bool, 12<<10)
			}
			found[strings.Clone(name)] = true
		}
		if err != nil {
			return found
		}
	}
}
