package module

import (
	"errors"
	"fmt"
)

// What can be wrong with a file; [FileError] wraps one of them.
var (
	// ErrNotModule: the bytes are no kernel module at all (text, an empty
	// file, a program, an object file without the module's own section).
	ErrNotModule = errors.New("not a kernel module")
	// ErrTruncated: it began as a module, and the rest is missing.
	ErrTruncated = errors.New("cut short")
	// ErrPacked: the compressed stream is damaged or of a form not read here.
	ErrPacked = errors.New("cannot be decompressed")
	// ErrTooBig: more bytes than [Limits].MaxSize.
	ErrTooBig = errors.New("bigger than allowed")
	// ErrWindow: the decoder would need more memory than [Limits].MaxWindow.
	ErrWindow = errors.New("needs a larger decoder window than allowed")
)

// FileError says which file is wrong and how:
// "a.ko: not a kernel module (0 bytes)".
type FileError struct {
	File   string
	Detail string
	// Size in bytes of what was looked at, -1 when it does not matter.
	Size int64
	// Kind is one of the Err values above, perhaps wrapping more.
	Kind error
}

func (e *FileError) Error() string {
	s := fmt.Sprintf("%s: %v", e.File, e.Kind)
	if e.Size >= 0 {
		s += fmt.Sprintf(" (%d bytes)", e.Size)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *FileError) Unwrap() error { return e.Kind }

// SignatureError says what is damaged in an appended signature. The kernel
// refuses such a file whether or not it enforces signatures (kernel/module/
// signing.c: only "none", "no key" and "no such algorithm" are forgiven).
type SignatureError struct {
	Detail string
}

func (e *SignatureError) Error() string { return "damaged signature: " + e.Detail }
