package image

import (
	"crypto/sha256"
	"hash"
)

// sideSum hashes on another processor while the caller goes on decompressing.
// It holds three buffers and no more, so a slow hash slows the caller down.
type sideSum struct {
	full, free chan []byte
	done       chan struct{}
	buf        []byte
	sum        hash.Hash
	ended      bool
}

const sideBuffer = 64 << 10

func newSideSum() *sideSum {
	s := &sideSum{full: make(chan []byte, 2), free: make(chan []byte, 3), done: make(chan struct{}), sum: sha256.New()}
	s.buf = make([]byte, 0, sideBuffer)
	s.free <- make([]byte, 0, sideBuffer)
	s.free <- make([]byte, 0, sideBuffer)
	go func() {
		defer close(s.done)
		for b := range s.full {
			s.sum.Write(b)
			s.free <- b[:0]
		}
	}()
	return s
}

// Write never fails.
func (s *sideSum) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room := min(cap(s.buf)-len(s.buf), len(p))
		s.buf, p = append(s.buf, p[:room]...), p[room:]
		if len(s.buf) == cap(s.buf) {
			s.full <- s.buf
			s.buf = <-s.free
		}
	}
	return n, nil
}

// end waits for the hash and gives it; nothing may be written afterwards.
func (s *sideSum) end() []byte {
	if !s.ended {
		s.ended = true
		s.full <- s.buf
		close(s.full)
		<-s.done
	}
	return s.sum.Sum(nil)
}
