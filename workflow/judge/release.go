package judge

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fitout/catalog/image"
	"fitout/workflow/finding"
)

func findBuild(inv *image.Inventory, release string) *image.Kernel {
	for i := range inv.Kernels {
		if inv.Kernels[i].Release == release {
			return &inv.Kernels[i]
		}
	}
	return nil
}

// rehomed looks for a build in a directory of another name: one whose files
// say that they are for this release (a directory without the trailing plus),
// or whose symbol versions all match this kernel. The nearest comes first, and
// nothing less than that proof counts.
func rehomed(in Input) (Judgement, bool) {
	for n, release := range byNearness(in.Release, releases(in.Inventory)) {
		if n == 64 { // each is cheap, an image of thousands is not for this
			break
		}
		x := examine(in, findBuild(in.Inventory, release))
		switch j := x.judgement(); {
		case j.Verdict == finding.OK, j.Verdict == finding.OKKABI:
			return j, true
		case j.Verdict == finding.Unsure && x.crcsMatch:
			return j, true // unsure of something else, firmware perhaps
		}
	}
	return Judgement{}, false
}

// noBuild says what the image has instead.
func noBuild(in Input) Judgement {
	j := Judgement{Release: in.Release, Verdict: finding.NoModule}
	name := in.Inventory.Reference
	if name == "" {
		name = "the image"
	}
	f := finding.New("no-module", name, in.Release)
	have := byNearness(in.Release, releases(in.Inventory))
	if len(have) > 0 {
		j.Nearest = have[0]
		f = f.With(fmt.Sprintf("nearest: %s (%s)", have[0], Difference(in.Release, have[0])))
		sorted := slices.Clone(have)
		slices.SortFunc(sorted, CompareReleases)
		f = f.With("the image has: " + strings.Join(few(sorted), ", "))
		for _, c := range examine(in, findBuild(in.Inventory, have[0])).checks {
			if c.Result != Passed && c.Name != "kernel directory" {
				f = f.With(fmt.Sprintf("%s of %s: %s", c.Name, have[0], c.Detail))
			}
		}
	} else {
		f = f.With("the image holds no kernel modules at all")
	}
	j.Findings = []finding.Finding{f}
	j.Checks = []Check{{Name: "kernel directory", Result: Fails, Detail: f.Message}}
	return j
}

func releases(inv *image.Inventory) []string {
	var list []string
	for _, k := range inv.Kernels {
		list = append(list, k.Release)
	}
	return list
}

var piece = regexp.MustCompile(`\d+|[^\d]+`)

// CompareReleases orders kernel releases by their numbers: 5.15.0-118 comes
// before 5.15.0-1042.
func CompareReleases(a, b string) int {
	p, q := piece.FindAllString(a, -1), piece.FindAllString(b, -1)
	for i := range min(len(p), len(q)) {
		m, err1 := strconv.ParseUint(p[i], 10, 64)
		n, err2 := strconv.ParseUint(q[i], 10, 64)
		c := strings.Compare(p[i], q[i])
		if err1 == nil && err2 == nil {
			c = cmp.Compare(m, n)
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(p), len(q))
}

// byNearness sorts releases: those of the same flavour first, then by how many
// leading pieces are equal, then by the distance of the first number that is not.
func byNearness(release string, list []string) []string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b string) int {
		an, ad := nearness(release, a)
		bn, bd := nearness(release, b)
		return cmp.Or(flavourRank(release, a)-flavourRank(release, b), bn-an, cmp.Compare(ad, bd), CompareReleases(b, a))
	})
	return list
}

func flavourRank(release, other string) int {
	_, wanted := split(release)
	if _, flavour := split(other); flavour == wanted {
		return 0
	}
	return 1
}

func nearness(a, b string) (equal int, distance uint64) {
	p, q := piece.FindAllString(a, -1), piece.FindAllString(b, -1)
	for i := range min(len(p), len(q)) {
		if p[i] == q[i] {
			equal++
			continue
		}
		m, err1 := strconv.ParseUint(p[i], 10, 64)
		n, err2 := strconv.ParseUint(q[i], 10, 64)
		if err1 == nil && err2 == nil {
			return equal, max(m, n) - min(m, n)
		}
		return equal, 1 << 62
	}
	return equal, 0
}

// split takes a release apart into its version and its flavour: Debian and
// Ubuntu put words behind the numbers (-rt-amd64, -1042-gke), RPM systems
// behind the architecture (.x86_64+rt, .aarch64+64k), others a word of their own.
func split(release string) (version, flavour string) {
	if i := strings.IndexByte(release, '+'); i > 0 && strings.HasPrefix(release[i:], "+deb") {
		if j := strings.IndexByte(release[i:], '-'); j > 0 {
			return release[:i+j], release[i+j+1:]
		}
	}
	for _, arch := range []string{".x86_64", ".aarch64", ".ppc64le", ".s390x"} {
		if i := strings.Index(release, arch); i > 0 {
			return release[:i], release[i+1:]
		}
	}
	words := strings.Split(release, "-")
	n := 1
	for n < len(words) && words[n] != "" && words[n][0] >= '0' && words[n][0] <= '9' {
		n++
	}
	return strings.Join(words[:n], "-"), strings.Join(words[n:], "-")
}

// Difference says in which way two releases differ, "" when they do not:
// a trailing plus, the flavour, or the version.
func Difference(kernel, other string) string {
	if kernel == other {
		return ""
	}
	if strings.TrimSuffix(kernel, "+") == strings.TrimSuffix(other, "+") {
		return fmt.Sprintf("kernel %s, module %s: differs by the trailing '+'", kernel, other)
	}
	if rest, ok := strings.CutPrefix(kernel, other); ok && !strings.HasPrefix(rest, "0") {
		return "flavour differs: " + rest
	}
	if rest, ok := strings.CutPrefix(other, kernel); ok {
		return "flavour differs: " + rest
	}
	kv, kf := split(kernel)
	ov, of := split(other)
	if kf != of {
		return fmt.Sprintf("flavour differs: the kernel is %s, the module is for %s", orWord(kf, "without one"), orWord(of, "one without"))
	}
	return fmt.Sprintf("another build: the kernel is %s, the module is for %s", kv, ov)
}

// orWord is s, or a word for its absence.
func orWord(s, absent string) string {
	if s == "" {
		return absent
	}
	return s
}
