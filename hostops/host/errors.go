package host

import "fmt"

// Unsupported says that a family cannot do what was asked, and what to do.
type Unsupported struct {
	Family, What, Why string
}

func (e *Unsupported) Error() string {
	return fmt.Sprintf("%s is not possible on this host (%s): %s", e.What, e.Family, e.Why)
}

// NoSpace says that a file system lacks room, before anything was written.
type NoSpace struct {
	Path       string
	Need, Have uint64 // bytes
	// Inodes is set when inodes are what lacks; Need and Have count them.
	Inodes bool
	// Instead names what else can be done.
	Instead string
}

func (e *NoSpace) Error() string {
	what := fmt.Sprintf("needs %s, %s free on %s", size(e.Need), size(e.Have), e.Path)
	if e.Inodes {
		what = fmt.Sprintf("needs %d inodes, %d free on %s", e.Need, e.Have, e.Path)
	}
	if e.Instead != "" {
		what += "; " + e.Instead
	}
	return what
}

// size prints bytes for people.
func size(b uint64) string {
	switch {
	case b >= 10<<20:
		return fmt.Sprintf("%d MiB", (b+1<<19)>>20)
	case b >= 10<<10:
		return fmt.Sprintf("%d KiB", b>>10)
	}
	return fmt.Sprintf("%d bytes", b)
}

// NotIndexed says that depmod ran and its index still lacks a module.
type NotIndexed struct {
	Release, Module, Index, Output string
}

func (e *NotIndexed) Error() string {
	s := fmt.Sprintf("indexing the modules of %s: %s does not name %s", e.Release, e.Index, e.Module)
	if e.Output != "" {
		s += "; depmod said: " + e.Output
	}
	return s
}

// ChangedSince names files of fitout's that somebody else has changed; they
// were left alone.
type ChangedSince struct{ Paths []string }

func (e *ChangedSince) Error() string {
	s := "changed by somebody else since fitout wrote it, left alone:"
	for _, p := range e.Paths {
		s += " " + p
	}
	return s
}
