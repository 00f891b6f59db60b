package catalog

import "strings"

// matchRelease is the release as mappings see it: one trailing '+' trimmed, the
// mark of a kernel built from a changed tree (KMM, internal/module).
func matchRelease(release string) string { return strings.TrimSuffix(release, "+") }

var tagIllegal = lazy(`[^A-Za-z0-9._-]`)

// tagRelease is the release as it stands in tags, which cannot hold a '+'
// (KMM, kernel.NormalizeVersion).
func tagRelease(release string) string {
	return tagIllegal().ReplaceAllString(matchRelease(release), "_")
}

// releaseParts are the first three components of a release, or fewer (KMM,
// utils.KernelComponentsAsEnvVars: split at '.', ',' and '-').
func releaseParts(release string) []string {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r == '.' || r == ',' || r == '-' })
	return parts[:min(len(parts), 3)]
}

// ociArch is an architecture as image registries write it.
func ociArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}
