package workflow

import (
	"context"
	"slices"
	"strings"
	"time"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/hostops/host"
	"fitout/workflow/finding"
)

// askTags is how long one registry may take to list a repository's tags: the
// answer is a help, and nothing waits for it.
const askTags = 10 * time.Second

// publisher lists what an entry's repositories have, each repository asked once.
type publisher struct {
	e     *Engine
	q     question
	lists map[string]tagList
}

type tagList struct {
	tags []string
	err  error
}

// nearest says, for a kernel that the entry has no image for, which kernels its
// repositories have one for: the nearest, and the newest. It is nil for a
// reference given by hand, whose tags follow no rule that is known.
func (p *publisher) nearest(ctx context.Context, release string) []finding.Finding {
	d := p.q.offer.Driver
	if len(d.Images) == 0 {
		return nil
	}
	vars := p.e.vars(p.q.offer.osTag)
	var all []catalog.Published
	var trouble []string
	for _, repository := range d.Repositories(release, vars) {
		list := p.tags(ctx, repository)
		if list.err != nil {
			trouble = append(trouble, "the tags of "+repository.Registry+"/"+repository.Repository+" could not be listed: "+list.err.Error())
			continue
		}
		all = append(all, d.Published(repository, list.tags, release, vars)...)
	}
	switch {
	case len(all) > 0:
		near, newest := closest(all, release)
		return []finding.Finding{finding.New("published-nearest", d.Name, near.Release, newest.Release).
			With("nearest: "+near.Reference, "newest: "+newest.Reference).With(trouble...)}
	case len(trouble) > 0:
		return []finding.Finding{finding.New("published-unknown", d.Name).With(trouble...)}
	}
	return []finding.Finding{finding.New("none-published", d.Name)}
}

func (p *publisher) tags(ctx context.Context, repository image.Reference) tagList {
	name := repository.Registry + "/" + repository.Repository
	if list, ok := p.lists[name]; ok {
		return list
	}
	ctx, cancel := context.WithTimeout(ctx, askTags)
	defer cancel()
	opts, err := p.e.imageOptions(p.q)
	var list tagList
	if list.err = err; err == nil {
		list.tags, list.err = image.ListTags(ctx, repository, opts)
	}
	p.lists[name] = list
	return list
}

// closest are the image for the newest kernel that is not newer than release
// (for the oldest of the newer ones, when there is no other), and the one for
// the newest kernel of all.
func closest(all []catalog.Published, release string) (near, newest catalog.Published) {
	release = strings.TrimSuffix(release, "+")
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b catalog.Published) int { return host.CompareReleases(a.Release, b.Release) })
	near, newest = all[0], all[len(all)-1]
	for _, p := range all {
		if host.CompareReleases(p.Release, release) <= 0 {
			near = p
		}
	}
	return near, newest
}
