package image

import (
	"errors"
	"fmt"
)

// Code is the stable machine name of what went wrong with an image.
type Code = string

// The ways reading an image ends badly. A caller decides by these, never by a
// message.
const (
	// BadReference: the text names no image.
	BadReference Code = "bad-reference"
	// Unreachable: no answer from the registry (name, route, time-out).
	Unreachable Code = "unreachable"
	// Unauthorised: a login is needed, or the one given was rejected.
	Unauthorised Code = "unauthorised"
	// Denied: logged in, but no right to pull.
	Denied Code = "denied"
	// NotFound: the repository does not exist or is not visible to us.
	NotFound Code = "not-found"
	// TagMissing: the repository is readable, the tag is not there.
	TagMissing Code = "tag-missing"
	// DigestMismatch: bytes are not those that their digest promises.
	DigestMismatch Code = "digest-mismatch"
	// TagMoved: the tag points to another digest than the pinned one.
	TagMoved Code = "tag-moved"
	// Truncated: the bytes end early.
	Truncated Code = "truncated"
	// TLS: the registry's certificate is not trusted.
	TLS Code = "tls"
	// PlainHTTP: the registry speaks plain HTTP and that was not allowed.
	PlainHTTP Code = "plain-http"
	// Proxy: the answer came from a proxy on the way.
	Proxy Code = "proxy"
	// RateLimited: the registry asked to wait for too long.
	RateLimited Code = "rate-limited"
	// Blocked: registries.conf forbids this registry.
	Blocked Code = "registry-blocked"
	// ClockSkew: this node's clock and the registry's do not agree.
	ClockSkew Code = "clock-skew"
	// Hostile: an entry would leave its directory, or is of a kind that a
	// driver image has no use for.
	Hostile Code = "hostile"
	// Limit: a named limit was reached.
	Limit Code = "limit"
	// NoSpace: the disk is full.
	NoSpace Code = "no-space"
	// Corrupt: the bytes are complete but cannot be read.
	Corrupt Code = "corrupt"
	// StoreDamaged: what lies in the store is not what was fetched.
	StoreDamaged Code = "store-damaged"
	// NoPlatform: the index has nothing for this architecture.
	NoPlatform Code = "platform-missing"
	// UnsupportedManifest: a manifest of a kind that is not an image.
	UnsupportedManifest Code = "unsupported-manifest"
	// Ambiguous: several images and nothing says which.
	Ambiguous Code = "ambiguous"
	// UnknownLayout: no known place for modules in it.
	UnknownLayout Code = "unknown-layout"
	// NoModule: no build for a kernel that was asked for by name.
	NoModule Code = "no-module"
	// NotReadable: a file that goes into an image cannot be read.
	NotReadable Code = "file-not-readable"
	// NotWritable: the image cannot be written where it is to go.
	NotWritable Code = "file-not-writable"
	// UnsupportedLayout: recognised, but it cannot be used by extraction.
	UnsupportedLayout Code = "unsupported-layout"
	// TwoTrees: two different module trees for one kernel.
	TwoTrees Code = "two-trees"
	// Untrusted: the verifier refused it.
	Untrusted Code = "untrusted"
)

// Error is a failure with its stable code, a sentence and, where there is one,
// what a person can do.
type Error struct {
	Code    Code
	Message string
	Hint    string
	// Tags are the tags that come nearest to a missing one.
	Tags []string
	// Err is the cause, nil when Message says all of it.
	Err error
}

// Error is the sentence, the cause appended.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// FindingCode is the stable code of the reason.
func (e *Error) FindingCode() string { return e.Code }

// CodeOf is the code of the first Error in err's chain, "" when there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func fail(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}
