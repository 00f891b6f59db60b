package image

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// pathKey is the secret key of SipHash-2-4 (Aumasson and Bernstein, 2012), which
// nobody who does not know it can find collisions for. hash/maphash would do as
// well, but its seed cannot be kept for the next process.
type pathKey [2]uint64

func newPathKey() pathKey {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return pathKey{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// of is the hash of a path.
func (k pathKey) of(p string) uint64 {
	s := sip{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d, k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573}
	last := uint64(len(p)) << 56
	for ; len(p) >= 8; p = p[8:] {
		s.word(uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
			uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56)
	}
	for i := range len(p) {
		last |= uint64(p[i]) << (8 * i)
	}
	s.word(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// sip is the state of SipHash.
type sip struct{ v0, v1, v2, v3 uint64 }

func (s *sip) word(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

func (s *sip) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
