package kmod

import "sync"

// Symbols are a kernel's exports with their versions. Files are read as far as
// the questions need them: of a symvers file all, of the kernel's own modules
// those that are likely to know. A nil *Symbols knows nothing.
type Symbols struct {
	once sync.Once
	load func(*Symbols)

	mu      sync.Mutex
	origin  Origin
	file    string
	byName  map[string]Symbol
	harvest *harvest // what is not read yet, nil when nothing is left
}

// NewSymbols are symbols that are known already (from a file of the caller's,
// or a test's).
func NewSymbols(origin Origin, byName map[string]Symbol) *Symbols {
	return &Symbols{origin: origin, byName: byName}
}

func (s *Symbols) ready() bool {
	if s == nil {
		return false
	}
	s.once.Do(func() {
		if s.load != nil {
			s.load(s)
		}
	})
	return true
}

// Lookup finds an export. When it is not found, [Symbols.Complete] says
// whether that proves that the kernel does not have it.
func (s *Symbols) Lookup(name string) (Symbol, bool) {
	if !s.ready() {
		return Symbol{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.harvest != nil {
		s.harvest.until(s, name)
	}
	sym, ok := s.byName[name]
	if ok && !sym.TermsKnown && s.origin == FromImage {
		// Modules import it, but neither the kernel nor a module that is here
		// exports it: its own module is missing.
		return Symbol{}, false
	}
	return sym, ok
}

// Prefer says which modules the next questions are about: a harvest then begins
// with the kernel's own modules of those names and in those directories, and
// most often ends there.
func (s *Symbols) Prefer(modules ...string) {
	if !s.ready() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.harvest != nil {
		s.harvest.prefer(modules)
	}
}

// Origin says where the versions come from.
func (s *Symbols) Origin() Origin {
	if !s.ready() {
		return FromNowhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin
}

// File is the node path they were read from: a symvers file, or the modules
// directory of a harvest.
func (s *Symbols) File() string {
	if !s.ready() {
		return ""
	}
	return s.file
}

// Complete says that every export of the kernel is known, so that a failed
// Lookup proves that there is none. A harvest is complete when the kernel's
// image could be read for it; else exports of vmlinux that no module of its own
// imports are unseen.
func (s *Symbols) Complete() bool {
	o := s.Origin()
	return o == FromSymvers || o == FromImage
}

// Len is the number of exports known, after everything was read.
func (s *Symbols) Len() int {
	if !s.ready() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.harvest != nil {
		s.harvest.rest(s)
	}
	return len(s.byName)
}

// keepImage takes up what the kernel's image exports, which was read for
// another question, so that no further process has to read it again.
func (s *Symbols) keepImage() {
	if !s.ready() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.harvest != nil && !s.harvest.tried {
		s.harvest.image(s)
		s.harvest.finish(s, 1)
	}
}
