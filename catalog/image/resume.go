package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// deadEnds is how often a blob's connection may break without a single new byte
// before the blob is said to be truncated. One that gives nothing for the limit
// stall counts as broken.
const deadEnds = 4

// blobReader reads a blob and picks it up again where a connection broke. It
// asks with plain "a-b" ranges, the only form that every registry knows.
type blobReader struct {
	ctx context.Context
	e   *endpoint
	d   v1.Descriptor
	// to is where a part of the blob ends, 0 for the whole blob.
	to int64

	body    io.ReadCloser
	cancel  context.CancelFunc
	offset  int64
	dead    int
	stalled *time.Timer
	stall   atomic.Bool
}

// connect opens the rest of the blob.
func (b *blobReader) connect() error {
	resp, cancel, err := b.ask()
	if err != nil {
		return err
	}
	return b.take(resp, cancel)
}

func (b *blobReader) end() int64 { return cmp.Or(b.to, b.d.Size) }

// ask makes the request for the rest of the blob, which cancel ends.
func (b *blobReader) ask() (resp *http.Response, cancel context.CancelFunc, err error) {
	ctx, cancel := context.WithCancel(b.ctx)
	header := http.Header{}
	if b.offset > 0 || b.to > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", b.offset, b.end()-1))
	}
	if resp, err = b.e.get(ctx, "blobs/"+b.d.Digest.String(), header); err != nil {
		cancel()
	}
	return resp, cancel, err
}

// take reads on from a response, whose request cancel ends.
func (b *blobReader) take(resp *http.Response, cancel context.CancelFunc) error {
	b.body, b.cancel = resp.Body, cancel
	b.stall.Store(false)
	b.stalled = time.AfterFunc(b.e.opts.Limits.Stall, func() { b.stall.Store(true); cancel() })
	if err := b.position(resp); err != nil {
		b.Close()
		return err
	}
	return nil
}

// position makes sure that the next byte is the one at offset.
func (b *blobReader) position(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if n := resp.ContentLength; n > b.d.Size {
			return fail(DigestMismatch, "registry %s offers %d bytes for %s, the manifest says %d", b.e.host, n, b.d.Digest, b.d.Size)
		}
		alive := tellReader{b.body, func(int64) { b.stalled.Reset(b.e.opts.Limits.Stall) }}
		_, err := io.CopyN(io.Discard, alive, b.offset)
		return err
	}
	var from int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from); err != nil || from != b.offset {
		return fail(Unreachable, "registry %s answers the wrong range %q of %s", b.e.host, resp.Header.Get("Content-Range"), b.d.Digest)
	}
	return nil
}

func (b *blobReader) Read(p []byte) (int, error) {
	for {
		if b.body == nil {
			if err := b.again(); err != nil {
				return 0, err
			}
		}
		n, err := b.body.Read(p)
		if n > 0 {
			b.offset += int64(n)
			b.dead = 0
			b.stalled.Reset(b.e.opts.Limits.Stall)
		}
		if err == nil || (err == io.EOF && b.offset >= b.end()) {
			return n, err
		}
		if b.ctx.Err() != nil {
			return n, b.ctx.Err()
		}
		b.drop()
		if n > 0 {
			return n, nil
		}
	}
}

// again reconnects after a break, a growing pause between dead ends. When no
// further byte comes the reader ends early and its user names the truncation.
func (b *blobReader) again() error {
	if b.dead++; b.dead > deadEnds {
		return io.EOF
	}
	how := "broke off"
	if b.stall.Load() {
		how = fmt.Sprintf("gave nothing for %s (limit stall)", b.e.opts.Limits.Stall)
	}
	b.e.opts.Log(fmt.Sprintf("registry %s %s after %d of %d bytes; going on from there", b.e.host, how, b.offset, b.end()))
	if err := b.e.opts.Sleep(b.ctx, time.Second<<b.dead/4); err != nil {
		return err
	}
	err := b.connect()
	if err != nil && b.ctx.Err() == nil && (errors.Is(err, io.ErrUnexpectedEOF) || b.stall.Load() || passingError(err)) {
		b.drop()
		return b.again()
	}
	return err
}

func (b *blobReader) drop() {
	if b.body != nil {
		b.stalled.Stop()
		b.cancel()
		b.body.Close()
		b.body = nil
	}
}

func (b *blobReader) Close() error {
	b.drop()
	return nil
}
