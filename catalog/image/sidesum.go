package image

import "hash"

// sideSum hashes chunks on another processor while the caller makes the next
// one. It keeps no copy: a chunk has to stay as it is until the call after the
// next, which is what chunk sources promise.
type sideSum struct {
	work  chan []byte
	done  chan struct{}
	sum   hash.Hash
	busy  bool
	ended bool
}

// newSideSum goes on from the state of an earlier hash, if any.
func newSideSum(state []byte) (*sideSum, error) {
	sum, err := resumeSum(state)
	if err != nil {
		return nil, err
	}
	s := &sideSum{work: make(chan []byte), done: make(chan struct{}, 1), sum: sum}
	go func() {
		for b := range s.work {
			s.sum.Write(b)
			s.done <- struct{}{}
		}
	}()
	return s, nil
}

// add begins to hash a chunk, once the one before is done.
func (s *sideSum) add(chunk []byte) {
	s.wait()
	s.work <- chunk
	s.busy = true
}

func (s *sideSum) wait() {
	if s.busy {
		<-s.done
		s.busy = false
	}
}

// state is that of the hash over all chunks added.
func (s *sideSum) state() []byte {
	s.wait()
	return sumState(s.sum)
}

// end waits for the hash and gives it; nothing may be added afterwards.
func (s *sideSum) end() []byte {
	if s.wait(); !s.ended {
		s.ended = true
		close(s.work)
	}
	return s.sum.Sum(nil)
}
