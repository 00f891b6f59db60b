package image

import (
	"crypto/sha256"
	"encoding"
	"hash"
	"io"
)

// rawBuffer is how much of a blob is handed on at once, rawBuffers how many
// such pieces a layer may be ahead.
const (
	rawBuffer  = 64 << 10
	rawBuffers = 4
)

// rawReader reads a blob as it lies in its source, counts and hashes it. The
// source is read by a goroutine of its own, so that waiting for the network,
// decrypting and hashing go on beside the decompression.
type rawReader struct {
	src   io.ReadCloser
	want  int64
	tell  func(int64)
	full  chan rawPiece
	free  chan []byte
	quit  chan struct{}
	piece rawPiece
	rest  []byte
	count int64 // bytes handed on, those before a resumption included
	sum   hash.Hash
	err   error // what the source said, io.EOF excepted
	// marks are the last pieces' beginnings, for a resumption.
	marks [rawBuffers]rawMark
}

type rawPiece struct {
	data []byte
	mark rawMark
	err  error
}

// rawMark is a place in a blob and the state of its hash there.
type rawMark struct {
	At    int64  `json:"at"`
	State []byte `json:"state,omitempty"`
}

// newRawReader reads src, which begins at from.At. One byte more than want is
// read, to see that there is none.
func newRawReader(src io.ReadCloser, want int64, from rawMark, tell func(int64)) (*rawReader, error) {
	sum, err := resumeSum(from.State)
	if err != nil {
		return nil, err
	}
	r := &rawReader{src: src, want: want, tell: tell, sum: sum, count: from.At,
		full: make(chan rawPiece, rawBuffers), free: make(chan []byte, rawBuffers), quit: make(chan struct{})}
	for range rawBuffers {
		r.free <- make([]byte, rawBuffer)
	}
	go r.run(from.At)
	return r, nil
}

// run fills pieces until the source ends or the reader is closed.
func (r *rawReader) run(at int64) {
	defer close(r.full)
	for {
		var p rawPiece
		select {
		case p.data = <-r.free:
		case <-r.quit:
			return
		}
		p.mark = rawMark{at, sumState(r.sum)}
		var n int
		n, p.err = readUpTo(r.src, p.data[:min(rawBuffer, r.want+1-at)])
		p.data = p.data[:n]
		r.sum.Write(p.data)
		at += int64(n)
		if at > r.want {
			p.err = io.EOF
		}
		select {
		case r.full <- p:
		case <-r.quit:
			return
		}
		if p.err != nil {
			return
		}
	}
}

// readUpTo fills p as far as the source goes.
func readUpTo(src io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = src.Read(p[n:])
		n += got
	}
	return n, err
}

func (r *rawReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.piece.err != nil {
			return 0, r.piece.err
		}
		if r.piece.data != nil {
			r.free <- r.piece.data[:rawBuffer]
		}
		r.piece = <-r.full
		r.rest = r.piece.data
		copy(r.marks[1:], r.marks[:])
		r.marks[0] = r.piece.mark
		if r.piece.err != nil && r.piece.err != io.EOF {
			r.err = r.piece.err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.count += int64(n)
	r.tell(int64(n))
	return n, nil
}

// markBefore is the last piece's beginning that is not after at.
func (r *rawReader) markBefore(at int64) (rawMark, bool) {
	for _, m := range r.marks {
		if m.At <= at && m.State != nil {
			return m, true
		}
	}
	return rawMark{}, false
}

// Close ends the goroutine and closes the source. A source that may be waiting
// has to be told to give up before.
func (r *rawReader) Close() error {
	close(r.quit)
	for range r.full {
	}
	return r.src.Close()
}

// sumState and resumeSum put a sha256 aside and take it up again.
func sumState(h hash.Hash) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return state
}

func resumeSum(state []byte) (hash.Hash, error) {
	h := sha256.New()
	if len(state) == 0 {
		return h, nil
	}
	return h, h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
}
