package image

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values of SipHash's authors (vectors.h of the reference implementation)
// for the key 00…0f and the texts "", 00, 00 01, … up to eight bytes.
func TestPathsAreHashedWithSipHash(t *testing.T) {
	want := []uint64{0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7,
		0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462}
	k, text := pathKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}, ""
	for i, w := range want {
		require.Equal(t, w, k.of(text), "%d bytes", i)
		text += string(rune(i))
	}
}
