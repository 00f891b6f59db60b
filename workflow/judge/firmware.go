package judge

import (
	"path"
	"strings"

	"fitout/catalog/image"
	"fitout/workflow/finding"
)

// checkFirmware looks for every file that a module may ask for. A driver lists
// files for all its cards: some missing is worth a note, none there is a risk.
func (x *examination) checkFirmware() {
	inImage := map[string]bool{}
	for _, f := range x.in.Inventory.Firmware {
		inImage[plainName(f.Name)] = true
	}
	total, absent := 0, 0
	for _, m := range x.imageSteps() {
		if len(m.Info.Firmware) == 0 {
			continue
		}
		var missing []string
		for _, name := range m.Info.Firmware {
			total++
			if !has(inImage, name) && (x.in.HostFirmware == nil || !x.in.HostFirmware(name)) {
				missing = append(missing, name)
			}
		}
		absent += len(missing)
		x.firmwareFinding(m, missing, inImage)
	}
	switch {
	case total == 0:
	case absent == 0:
		x.check("firmware", Passed, "%d file(s), all in the image or on the host", total)
	default:
		x.check("firmware", Fails, "%d of %d file(s) are neither in the image nor on the host", absent, total)
	}
}

func (x *examination) firmwareFinding(m *image.Module, missing []string, inImage map[string]bool) {
	if len(missing) == 0 {
		return
	}
	for _, name := range missing {
		if other := otherVersion(name, inImage); other != "" {
			x.add(finding.New("firmware-version", m.Info.Name, name, other))
			return
		}
	}
	f := finding.New("firmware-missing", m.Info.Name, summary(missing)).With(few(missing)...)
	if len(missing) < len(m.Info.Firmware) {
		f = f.As(finding.Note)
	}
	x.add(f)
}

// has matches a firmware name, which may be a pattern ("iwlwifi-*.ucode").
func has(files map[string]bool, name string) bool {
	if files[name] {
		return true
	}
	if !strings.ContainsAny(name, "*?[") {
		return false
	}
	for f := range files {
		if ok, _ := path.Match(name, f); ok {
			return true
		}
	}
	return false
}

// plainName is a firmware file's name without a compression suffix.
func plainName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".xz"), ".zst")
}

// otherVersion finds the same file below a directory of another version:
// nvidia/555.58.02/gsp.bin for nvidia/565.57.01/gsp.bin.
func otherVersion(name string, files map[string]bool) string {
	parts := strings.Split(name, "/")
	for _, f := range sortedKeys(files) {
		other := strings.Split(f, "/")
		if len(other) != len(parts) {
			continue
		}
		differ := 0
		for i := range parts {
			if parts[i] == other[i] {
				continue
			}
			if i == len(parts)-1 || !isVersion(parts[i]) || !isVersion(other[i]) {
				differ = 2
				break
			}
			differ++
		}
		if differ == 1 {
			return f
		}
	}
	return ""
}

func isVersion(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9' && strings.Contains(s, ".")
}
