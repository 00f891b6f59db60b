package image

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fitout/catalog/module"
)

// laterFirmware is the firmware layer of a packed image of which it is not known
// yet what is needed: that the modules say, which lie in layers below it.
type laterFirmware struct {
	r     *rangeReader
	layer int
	files []tocFile
}

// fetchLater fetches the firmware that the modules name, and what lies beside
// it: a driver may choose among files of one directory without naming all. When
// the modules name none of the image's firmware, all of it is fetched.
func (x *extraction) fetchLater(ctx context.Context) error {
	if len(x.later) == 0 || !x.hasModules() {
		return nil
	}
	named := x.namedFirmware()
	for _, l := range x.later {
		x.layer = l.layer
		files := x.besideNamed(l.files, named)
		x.img.opts.Log(fmt.Sprintf("firmware: %d of the image's %d files are fetched, those in the directories that the modules name", len(files), len(l.files)))
		err := l.r.fetch(ctx, files, func(f tocFile, content io.Reader) error {
			return x.write(f.name, f.size, content, firmware)
		})
		if err != nil {
			return inLayer(&layerReader{n: l.layer, desc: l.r.d}, err)
		}
	}
	x.later = nil
	return nil
}

// namedFirmware are the firmware names of all modules fetched.
func (x *extraction) namedFirmware() map[string]bool {
	named := map[string]bool{}
	for p, f := range x.files {
		if f.class != tree || !isModule(p) {
			continue
		}
		info, err := module.ReadFile(filepath.Join(x.root.Name(), filepath.FromSlash(p)))
		if err != nil {
			continue // the inventory tells
		}
		for _, name := range info.Firmware {
			named[name] = true
		}
	}
	return named
}

// besideNamed are the files in directories that hold a named one; all when there
// is no such directory.
func (x *extraction) besideNamed(files []tocFile, named map[string]bool) []tocFile {
	dirs := map[string]bool{}
	for _, f := range files {
		for _, d := range x.sel.firmware {
			if below(f.name, d) && named[firmwareName(strings.TrimPrefix(f.name, d+"/"))] {
				dirs[path.Dir(f.name)] = true
			}
		}
	}
	if len(dirs) == 0 {
		return files
	}
	return slices.DeleteFunc(slices.Clone(files), func(f tocFile) bool { return !dirs[path.Dir(f.name)] })
}
