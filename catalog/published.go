package catalog

import (
	"regexp"
	"slices"
	"strings"

	"fitout/catalog/image"
)

// Published is an image of an entry that a registry's tag list shows.
type Published struct {
	// Release is the kernel it is for, in the tag's form ('+' is '_' there).
	Release   string
	Reference string
}

// Repositories are the registry repositories that an entry's mappings name on a
// node, each once.
func (d *Driver) Repositories(release string, v Vars) []image.Reference {
	var out []image.Reference
	v.release = release
	for i := range d.Images {
		text, _, err := d.Images[i].expand(v)
		if err != nil {
			continue
		}
		ref, err := image.ParseReference(text)
		if err != nil || ref.Transport != image.Registry {
			continue
		}
		same := func(o image.Reference) bool { return o.Registry == ref.Registry && o.Repository == ref.Repository }
		if !slices.ContainsFunc(out, same) {
			out = append(out, ref)
		}
	}
	return out
}

// Published filters the tags of a repository: those that the entry's mappings
// give for some kernel, on a node like this one (its OS_TAG and ARCH). release
// is any kernel of the node. Tags that name no kernel are left out.
func (d *Driver) Published(repository image.Reference, tags []string, release string, v Vars) []Published {
	v.release = release
	var out []Published
	for i := range d.Images {
		m := &d.Images[i]
		text, _, err := m.expand(v)
		if err != nil {
			continue
		}
		ref, err := image.ParseReference(text)
		if err != nil || ref.Registry != repository.Registry || ref.Repository != repository.Repository {
			continue
		}
		pattern := m.tagPattern(v)
		for _, tag := range tags {
			found := pattern.FindStringSubmatch(tag)
			if len(found) < 2 || !m.serves(found[1]) {
				continue
			}
			at := ref
			at.Tag = tag
			out = append(out, Published{found[1], at.String()})
		}
	}
	return out
}

// tagPattern matches the tags of a mapping; its first group is the kernel
// release. It matches nothing where the tag does not hold a whole release.
func (m *Mapping) tagPattern(v Vars) *regexp.Regexp {
	_, tag, _ := strings.Cut(m.Reference[strings.LastIndexByte(m.Reference, '/')+1:], ":")
	if tag, _, _ = strings.Cut(tag, "@"); tag == "" {
		return regexp.MustCompile(`[^\s\S]`)
	}
	var b strings.Builder
	at := 0
	for _, use := range variable().FindAllStringIndex(tag, -1) {
		b.WriteString(regexp.QuoteMeta(tag[at:use[0]]))
		switch name := strings.Trim(tag[use[0]:use[1]], "${}"); name {
		case "KERNEL_FULL_VERSION", "KERNEL_VERSION":
			b.WriteString(`([A-Za-z0-9][A-Za-z0-9._-]*)`)
		case "KERNEL_XYZ", "KERNEL_X", "KERNEL_Y", "KERNEL_Z":
			b.WriteString(`[A-Za-z0-9._-]+`)
		default:
			value, _, _ := v.value(name)
			b.WriteString(regexp.QuoteMeta(value))
		}
		at = use[1]
	}
	b.WriteString(regexp.QuoteMeta(tag[at:]))
	return regexp.MustCompile(`^(?:` + b.String() + `)$`)
}

// serves says whether a mapping is for a release in the tag's form.
func (m *Mapping) serves(release string) bool {
	if m.Literal != "" {
		return tagRelease(m.Literal) == release
	}
	re, err := regexp.Compile(m.Kernel)
	return err == nil && (re.MatchString(release) || re.MatchString(strings.ReplaceAll(release, "_", "+")))
}
