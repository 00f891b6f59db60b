package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// rpmPackage is what the front of an RPM says of its payload.
type rpmPackage struct {
	format      string // "cpio"
	compression string // "xz", "zstd", …, "" for none
}

// Sizes and marks of the format (RPM V4, docs/manual/format_v4.md). The header
// limit is rpm's own for a store.
const (
	rpmLead       = 96
	rpmHeaderSize = 32 << 20
	rpmIndexCount = 65535
	tagFormat     = 1124
	tagCompressor = 1125
	typeString    = 6
)

var (
	rpmLeadMagic   = []byte{0xed, 0xab, 0xee, 0xdb}
	rpmHeaderMagic = []byte{0x8e, 0xad, 0xe8, 0x01}
)

// readRPM reads up to the payload. Only two tags are looked at, everything
// else passes by in bounded memory: packages come from images, and images are
// hostile.
func readRPM(r io.Reader) (rpmPackage, error) {
	lead := make([]byte, rpmLead)
	if _, err := io.ReadFull(r, lead); err != nil {
		return rpmPackage{}, noEOF(err)
	}
	if !bytes.HasPrefix(lead, rpmLeadMagic) {
		return rpmPackage{}, fmt.Errorf("it does not begin as a package does")
	}
	// The signature header is padded to eight bytes, the main one is not.
	_, size, err := rpmHeader(r, nil)
	if err != nil {
		return rpmPackage{}, fmt.Errorf("signature header: %w", err)
	}
	if _, err := io.CopyN(io.Discard, r, (8-size%8)%8); err != nil {
		return rpmPackage{}, noEOF(err)
	}
	tags, _, err := rpmHeader(r, map[uint32]bool{tagFormat: true, tagCompressor: true})
	if err != nil {
		return rpmPackage{}, fmt.Errorf("header: %w", err)
	}
	return rpmPackage{format: tags[tagFormat], compression: tags[tagCompressor]}, nil
}

// rpmHeader reads one header structure and gives the wanted string tags and the
// size of its store.
func rpmHeader(r io.Reader, wanted map[uint32]bool) (map[uint32]string, int64, error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, noEOF(err)
	}
	count, size := binary.BigEndian.Uint32(head[8:]), int64(binary.BigEndian.Uint32(head[12:]))
	if !bytes.HasPrefix(head, rpmHeaderMagic) || count > rpmIndexCount || size > rpmHeaderSize {
		return nil, 0, fmt.Errorf("no header of a package (%d tags, %d bytes)", count, size)
	}
	at := map[uint32]int64{}
	entry := make([]byte, 16)
	for range count {
		if _, err := io.ReadFull(r, entry); err != nil {
			return nil, 0, noEOF(err)
		}
		tag, kind, offset := binary.BigEndian.Uint32(entry), binary.BigEndian.Uint32(entry[4:]), int64(binary.BigEndian.Uint32(entry[8:]))
		if wanted[tag] && kind == typeString && offset < size {
			at[tag] = offset
		}
	}
	tags := map[uint32]string{}
	if len(at) == 0 {
		_, err := io.CopyN(io.Discard, r, size)
		return tags, size, noEOF(err)
	}
	store := make([]byte, size)
	if _, err := io.ReadFull(r, store); err != nil {
		return nil, 0, noEOF(err)
	}
	for tag, offset := range at {
		text, _, _ := bytes.Cut(store[offset:], []byte{0})
		tags[tag] = string(text)
	}
	return tags, size, nil
}
