// Command pack writes the embedded PCI name database from a pci.ids file:
//
//	go run ./hostops/pci/ids/pack /usr/share/misc/pci.ids assets/pci.ids.pack
package main

import (
	"bytes"
	"fmt"
	"os"

	"fitout/hostops/pci/ids"
)

func main() {
	if err := pack(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("wanted: the pci.ids file and the file to write")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := ids.Write(&out, text); err != nil {
		return fmt.Errorf("packing %s: %w", args[0], err)
	}
	return os.WriteFile(args[1], out.Bytes(), 0o644)
}
