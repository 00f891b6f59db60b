package images

import (
	"fmt"
	"strings"
)

// Entry is a driver of a catalog file.
type Entry struct {
	Name, Title string
	// Modules in the catalog's order: the first needs those after it.
	Modules []string
	// Match holds modalias globs; none: the aliases of the image's modules.
	Match []string
	// Kernel is an RE2 pattern; "" serves every kernel.
	Kernel string
	// Reference of the image, variables allowed.
	Reference string
	// DirName and Firmware are places in the image; "": the usual ones.
	DirName, Firmware string
	// Licence is the licence's name; "" for no licence.
	Licence string
}

// Catalog writes a catalog file.
func Catalog(entries ...Entry) string {
	var b strings.Builder
	b.WriteString("apiVersion: fitout/v1\nkind: Catalog\ndate: 2026-11-28\ndrivers:\n")
	for _, e := range entries {
		kernel := e.Kernel
		if kernel == "" {
			kernel = ".+"
		}
		fmt.Fprintf(&b, "  - name: %s\n    title: %q\n    vendor: Test\n    modules: [%s]\n", e.Name, e.Title, strings.Join(e.Modules, ", "))
		if len(e.Match) > 0 {
			b.WriteString("    match:\n")
			for _, m := range e.Match {
				fmt.Fprintf(&b, "      - %q\n", m)
			}
		}
		fmt.Fprintf(&b, "    images:\n      - kernel: '%s'\n        reference: '%s'\n", kernel, e.Reference)
		for key, value := range map[string]string{"dirName": e.DirName, "firmware": e.Firmware} {
			if value != "" {
				fmt.Fprintf(&b, "    %s: %s\n", key, value)
			}
		}
		if e.Licence != "" {
			fmt.Fprintf(&b, "    licence: {id: %s, file: /licenses/LICENSE}\n", e.Licence)
		}
	}
	return b.String()
}
