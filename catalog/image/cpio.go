package image

import (
	"fmt"
	"io"
	"strconv"
)

// cpioReader reads the "new ASCII" form of cpio that RPM payloads are in;
// RPM's own 07070X form for files over 4 GiB is refused. Format: cpio(5).
type cpioReader struct {
	r    io.Reader
	lim  Limits
	left int64 // of the present file
	pad  int64 // after it
}

type cpioHeader struct {
	name string
	mode uint64
	size int64
}

// File types in a mode, as in inode(7).
const (
	cpioType = 0o170000
	cpioFile = 0o100000
	cpioLink = 0o120000
)

// cpioHead is the length of a header: six bytes of magic and 13 fields of
// eight hexadecimal digits.
const cpioHead = 6 + 13*8

func newCpioReader(r io.Reader, lim Limits) *cpioReader { return &cpioReader{r: r, lim: lim} }

// next goes to the next file; io.EOF after the trailer.
func (c *cpioReader) next() (cpioHeader, error) {
	if _, err := io.CopyN(io.Discard, c.r, c.left+c.pad); err != nil {
		return cpioHeader{}, noEOF(err)
	}
	c.left, c.pad = 0, 0
	head := make([]byte, cpioHead)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return cpioHeader{}, noEOF(err)
	}
	if m := string(head[:6]); m != "070701" && m != "070702" {
		return cpioHeader{}, fmt.Errorf("no cpio header but %q", m)
	}
	field := func(i int) (int64, error) {
		v, err := strconv.ParseUint(string(head[6+8*i:14+8*i]), 16, 32)
		return int64(v), err
	}
	mode, err1 := field(1)
	size, err2 := field(6)
	length, err3 := field(11)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return cpioHeader{}, fmt.Errorf("cpio header: %w", err)
		}
	}
	if length < 1 || length > int64(c.lim.Name) {
		return cpioHeader{}, fail(Limit, "a file of the package has a name of %d bytes; %d are allowed (limit name)", length, c.lim.Name)
	}
	name := make([]byte, length+pad4(cpioHead+length))
	if _, err := io.ReadFull(c.r, name); err != nil {
		return cpioHeader{}, noEOF(err)
	}
	h := cpioHeader{name: string(name[:length-1]), mode: uint64(mode), size: size}
	if h.name == "TRAILER!!!" {
		return h, io.EOF
	}
	c.left, c.pad = size, pad4(size)
	return h, nil
}

// Read gives the present file's content.
func (c *cpioReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); err == io.EOF && c.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func pad4(n int64) int64 { return (4 - n%4) % 4 }

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
