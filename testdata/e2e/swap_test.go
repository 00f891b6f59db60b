package e2e_test

import (
	"path/filepath"
	"testing"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// faultsMachine has a card with the kernel's own driver, and on a stick another
// build of it with firmware: a run swaps the driver, loads it and keeps it.
func faultsMachine(t *testing.T) node {
	t.Helper()
	stock := kernel(t, debian.Stock)
	stick := t.TempDir()
	build(t, images.Spec{Kernels: []debian.Kernel{stock}, Modules: []string{"e1000e"}, Firmware: map[string]string{"intel/e1000e.bin": "firmware"},
		Change: func(_, _ string, data []byte) ([]byte, error) { return images.OtherBuild(data) },
	}).archive(filepath.Join(stick, "e1000e.tar"), "3.8.7")
	entry := images.Entry{
		Name: "e1000e-stick", Title: "Intel PRO/1000 PCIe, from a stick", Modules: []string{"e1000e"},
		Match:     []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: "oci-archive:/media/stick/e1000e.tar:3.8.7", Licence: "gpl",
	}
	return start(t, vm.Config{
		Kernel: stock, OnlyModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=05.0"}, Memory: 512, Snapshots: true,
		Media: map[string]string{"stick": stick},
		Files: map[string]string{"/etc/fitout/catalog.d/stick.yaml": images.Catalog(entry),
			"/etc/local.d/README": "run at boot: *.start\n",
			"/root/answers.yaml": answer{id: e1000eID, driver: "e1000e-stick", when: "load-now+persist", licence: "gpl"}.file() +
				"acceptRisks: [unsigned-module]\n"},
	}, "hold", "fingerprint")
}

// fingerprint is all that a run may change, file by file.
func (n node) fingerprint() string {
	n.t.Helper()
	return n.ok("/tools/fingerprint")
}
