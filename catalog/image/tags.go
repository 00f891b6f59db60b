package image

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strings"
)

// tagPages bounds how many pages of tags are read; tagBytes one page.
const (
	tagPages = 100
	tagBytes = 8 << 20
)

// ListTags lists the tags of ref's repository, as the first endpoint that
// answers has them. An archive or layout lists its images' names.
func ListTags(ctx context.Context, ref Reference, opts Options) ([]string, error) {
	opts = opts.withDefaults()
	if ref.Transport != Registry {
		return localNames(ref, opts)
	}
	endpoints, err := endpointsFor(ref, opts)
	if err != nil {
		return nil, err
	}
	var tags []string
	for _, e := range endpoints {
		tags, err = e.tags(ctx)
		e.close()
		if err == nil {
			return tags, nil
		}
	}
	return nil, err
}

func localNames(ref Reference, opts Options) ([]string, error) {
	ref.Name = "\x00" // no image has this name, so the error lists all
	src, err := openLocal(ref, opts)
	if err == nil {
		defer src.Close()
		_, _, err = src.top(context.Background())
	}
	if e, ok := err.(*Error); ok && e.Code == TagMissing {
		return e.Tags, nil
	}
	return nil, err
}

// tags reads all pages of a tag list (OCI distribution, Listing Tags).
func (e *endpoint) tags(ctx context.Context) ([]string, error) {
	var all []string
	next := e.url("tags/list?n=1000")
	for page := 0; next != "" && page < tagPages; page++ {
		resp, err := e.do(ctx, http.MethodGet, next, nil, nil)
		if err != nil {
			return nil, err
		}
		raw, err := readAll(resp.Body, "tag list of "+e.repository, tagBytes)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		var doc struct{ Tags []string }
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fail(Corrupt, "registry %s: the tag list of %s", e.host, e.repository).because(err)
		}
		all = append(all, doc.Tags...)
		if next = nextPage(e.base, resp.Header.Get("Link")); next != "" && hostOf(next) != hostOf(e.base) {
			return nil, fail(Hostile, "registry %s sends the tag list on to %s", e.host, hostOf(next))
		}
	}
	return all, nil
}

// nextPage is the URL of a Link header with rel="next", "" when there is none.
func nextPage(base, link string) string {
	ref, rel, ok := strings.Cut(link, ">")
	if !ok || !strings.Contains(rel, "next") {
		return ""
	}
	b, err1 := url.Parse(base)
	r, err2 := url.Parse(strings.TrimPrefix(strings.TrimSpace(ref), "<"))
	if err1 != nil || err2 != nil {
		return ""
	}
	return b.ResolveReference(r).String()
}

// explainMissing tells a missing tag from a missing repository: when the
// repository's tags can be listed it is the tag, and those that come nearest
// are offered.
func (s *registrySource) explainMissing(ctx context.Context, e *endpoint, err error) error {
	if CodeOf(err) != NotFound {
		return err
	}
	tags, terr := e.tags(ctx)
	if terr != nil || len(tags) == 0 {
		return err
	}
	repo := s.ref.Registry + "/" + s.ref.Repository
	if s.ref.Digest != "" {
		return fail(TagMissing, "%s is readable, but has no %s", repo, s.ref.Digest)
	}
	near := Nearest(s.ref.Tag, tags, 5)
	m := &Error{Code: TagMissing, Tags: near, Message: fmt.Sprintf("%s is readable, but has no tag %s", repo, s.ref.Tag)}
	if n := countPrefix(tags, s.ref.Tag+"-"); n > 0 {
		m.Message += fmt.Sprintf("; %d tags begin with %s-", n, s.ref.Tag)
	}
	switch {
	case len(near) == 0:
		m.Hint = "published: " + strings.Join(tags[:min(5, len(tags))], ", ")
		if len(tags) > 5 {
			m.Hint += fmt.Sprintf(" and %d more", len(tags)-5)
		}
	default:
		m.Hint = "published: " + strings.Join(near, ", ") + "; a tag for another kernel is no substitute"
	}
	return m
}

func countPrefix(tags []string, prefix string) int {
	n := 0
	for _, t := range tags {
		if strings.HasPrefix(t, prefix) {
			n++
		}
	}
	return n
}

// Nearest gives up to n tags that come nearest to a missing one: those with
// the longest common beginning and end, among equals the longest beginning,
// then the newest version. It is for telling a person; none is a replacement.
func Nearest(want string, tags []string, n int) []string {
	type scored struct {
		tag        string
		head, tail int
	}
	var list []scored
	for _, t := range tags {
		s := scored{t, common(want, t), common(reverse(want), reverse(t))}
		if s.head >= 3 || s.tail >= 3 {
			list = append(list, s)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if sa, sb := min(a.head+a.tail, len(want)), min(b.head+b.tail, len(want)); sa != sb {
			return sa > sb
		}
		if a.head != b.head {
			return a.head > b.head
		}
		return versionLess(b.tag, a.tag)
	})
	var out []string
	for _, s := range list[:min(n, len(list))] {
		out = append(out, s.tag)
	}
	return out
}

func common(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// versionLess compares tags with runs of digits taken as numbers.
func versionLess(a, b string) bool {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x != "" && y != "" {
			m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(m) != len(n) {
				return len(m) < len(n)
			}
			if m != n {
				return m < n
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) string {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i]
}
