package catalog

import (
	"fmt"
	"regexp"
	"strings"

	"fitout/catalog/image"
)

// Vars are the values of a node that references may use.
type Vars struct {
	// OSRelease is the content of /etc/os-release.
	OSRelease string
	// Machine is uname -m.
	Machine string
	// OSTag, when set, is used instead of what OSRelease says.
	OSTag string

	release string // of the kernel that is resolved for
}

// NoMappingError says that an entry has no image for a kernel.
type NoMappingError struct {
	Driver, Release string
	Patterns        []string // those of the entry, in order
}

func (e *NoMappingError) Error() string {
	return fmt.Sprintf("%s has no image for kernel %s: none of its patterns matches (%s)", e.Driver, e.Release, strings.Join(e.Patterns, ", "))
}

// Resolve returns the image reference for a kernel, and in words which mapping
// and which values led to it. The semantics are KMM's: mappings are tried in
// order and the first match wins; patterns are RE2, unanchored and case
// sensitive; they see the release without one trailing '+'. In tags the
// characters that are illegal there become '_'; in the path of a directory or
// archive the release stands as it is.
//
// Errors are *NoMappingError, *UnknownVariableError, *EmptyVariableError and
// *image.Error for what is no reference.
func (d *Driver) Resolve(release string, v Vars) (reference, why string, err error) {
	m, matched, err := d.mapping(release)
	if err != nil {
		return "", "", err
	}
	v.release = release
	reference, values, err := m.expand(v)
	if err != nil {
		return "", "", fmt.Errorf("the image of %s for kernel %s: %w", d.Name, release, err)
	}
	if c, ok := illegal(reference); ok {
		return "", "", fmt.Errorf("the image of %s for kernel %s: %q has the character %q, which no reference can hold", d.Name, release, reference, c)
	}
	if _, err := image.ParseReference(reference); err != nil {
		return "", "", fmt.Errorf("the image of %s for kernel %s: %w", d.Name, release, err)
	}
	return reference, strings.Join(append([]string{matched}, values...), "; "), nil
}

// mapping finds the first mapping for a release and says how it matched.
func (d *Driver) mapping(release string) (*Mapping, string, error) {
	e := &NoMappingError{Driver: d.Name, Release: release}
	trimmed := matchRelease(release)
	for i := range d.Images {
		m := &d.Images[i]
		if m.Literal != "" {
			if m.Literal == trimmed || m.Literal == release {
				return m, fmt.Sprintf("images[%d] is for exactly %s", i, m.Literal), nil
			}
			e.Patterns = append(e.Patterns, m.Literal)
			continue
		}
		re, err := regexp.Compile(m.Kernel)
		if err != nil {
			return nil, "", fmt.Errorf("the pattern of %s, images[%d]: %w", d.Name, i, err)
		}
		if re.MatchString(trimmed) {
			return m, fmt.Sprintf("images[%d] %s matches %s", i, m.Kernel, release), nil
		}
		e.Patterns = append(e.Patterns, m.Kernel)
	}
	return nil, "", e
}

// expand puts the node's values into the reference and says what they were.
func (m *Mapping) expand(v Vars) (reference string, values []string, err error) {
	used, err := usedVariables(m.Reference)
	if err != nil {
		return "", nil, err
	}
	inTag, inPath := map[string]string{}, map[string]string{}
	for _, name := range used {
		value, note, err := v.value(name)
		if err != nil {
			return "", nil, &EmptyVariableError{name, err}
		}
		inTag[name], inPath[name] = value, value
		if name == "KERNEL_FULL_VERSION" || name == "KERNEL_VERSION" {
			inPath[name] = v.release
		}
		values = append(values, fmt.Sprintf("%s = %s%s", name, value, note))
	}
	path, tag := splitPath(m.Reference)
	return expandTemplate(path, inPath) + expandTemplate(tag, inTag), values, nil
}

// splitPath splits off the part of a reference that is a path on disk.
func splitPath(reference string) (path, rest string) {
	for _, t := range []image.Transport{image.OCIArchive, image.DockerArchive, image.OCI} {
		prefix := string(t) + ":"
		if after, ok := strings.CutPrefix(reference, prefix); ok {
			i := strings.LastIndexByte(after, ':')
			if i < 0 {
				i = len(after)
			}
			return prefix + after[:i], after[i:]
		}
	}
	if strings.HasPrefix(reference, "/") || strings.HasPrefix(reference, ".") || strings.HasSuffix(reference, ".tar") {
		return reference, ""
	}
	return "", reference
}

// value is one variable's value as it stands in tags, with a remark for people.
func (v Vars) value(name string) (value, note string, err error) {
	if v.release == "" {
		return "", "", fmt.Errorf("the kernel release is not known")
	}
	tag := tagRelease(v.release)
	parts := releaseParts(tag)
	part := func(i int) (string, string, error) {
		if len(parts) < 3 {
			return "", "", fmt.Errorf("the kernel release %s has fewer than three parts", v.release)
		}
		return parts[i], "", nil
	}
	switch name {
	case "KERNEL_FULL_VERSION", "KERNEL_VERSION":
		if tag != v.release {
			note = fmt.Sprintf(" (the tag's form of %s)", v.release)
		}
		return tag, note, nil
	case "KERNEL_XYZ":
		if _, _, err := part(0); err != nil {
			return "", "", err
		}
		return strings.Join(parts, "."), "", nil
	case "KERNEL_X":
		return part(0)
	case "KERNEL_Y":
		return part(1)
	case "KERNEL_Z":
		return part(2)
	case "OS_TAG":
		t, err := osTagOf(v)
		return t.tag, " (" + t.why + ")", err
	}
	if v.Machine == "" {
		return "", "", fmt.Errorf("the machine's architecture is not known")
	}
	return ociArch(v.Machine), "", nil
}

// illegal finds the first character that no reference and no path in one may
// have: blanks, quotes, control characters and the like.
func illegal(reference string) (rune, bool) {
	path, rest := splitPath(reference)
	for _, c := range path {
		if c < ' ' || c == 0x7f {
			return c, true
		}
	}
	for _, c := range rest {
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-/:@[]", c)
		if !legal {
			return c, true
		}
	}
	return 0, false
}
