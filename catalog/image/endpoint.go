package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// endpoint is one place that serves a repository.
type endpoint struct {
	opts Options
	// host is host[:port], base the URL up to and with "/v2".
	host, base string
	// repository as this endpoint calls it.
	repository string
	// logins are found for this name; a mirror has its own.
	loginName string
	// scope is what a token is asked for, "pull" when empty.
	scope string
	// plain allows http, skipVerify an untrusted certificate.
	plain, skipVerify bool
	// fallback is the http base that is tried when https does not answer and
	// plain HTTP is allowed.
	fallback string
	// own is what the node configures for this host alone.
	own hostSettings

	// noRanges is set when a range was answered with the whole blob.
	noRanges atomic.Bool

	client *http.Client
	trust  *trust
	auth   authState
}

// close drops idle connections.
func (e *endpoint) close() {
	if e.client != nil {
		e.client.CloseIdleConnections()
	}
}

// tries is how often one request is made when the registry or the way to it
// fails in passing.
const tries = 5

// get asks for a path below the repository and gives a response of status 200
// or 206. Passing failures are tried again, a login is made when asked for.
func (e *endpoint) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	return e.do(ctx, http.MethodGet, e.url(path), header, nil)
}

func (e *endpoint) url(path string) string {
	return e.base + "/" + e.repository + "/" + path
}

// body makes a request's body anew for each try.
type body func() (io.Reader, int64, error)

// do makes a request until it succeeds or fails for good.
func (e *endpoint) do(ctx context.Context, method, target string, header http.Header, b body) (*http.Response, error) {
	if err := e.connect(); err != nil {
		return nil, err
	}
	var waited time.Duration
	for try := 1; ; try++ {
		resp, err := e.once(ctx, method, target, header, b)
		if err != nil && e.fallBack(err) {
			target = strings.Replace(target, "https://", "http://", 1)
			try--
			continue
		}
		pause, again := e.passing(resp, err, try)
		if !again {
			if err == nil {
				resp, err = e.finalStatus(resp)
			}
			return resp, e.nameError(err)
		}
		if resp != nil {
			resp.Body.Close()
		}
		if waited += pause; try >= tries || waited > e.opts.Limits.Wait {
			return nil, e.gaveUp(resp, err, pause)
		}
		e.opts.Log(e.waitSentence(resp, err, pause))
		if err := e.opts.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// once makes one request with the login that is known, and a second one when
// the registry asks for another.
func (e *endpoint) once(ctx context.Context, method, target string, header http.Header, b body) (*http.Response, error) {
	for logins := 0; ; {
		req, err := e.request(ctx, method, target, header, b)
		if err != nil {
			return nil, err
		}
		sent := e.auth.apply(req)
		resp, err := e.client.Do(req)
		if err != nil || resp.StatusCode != http.StatusUnauthorized || resp.Request.URL.Host != req.URL.Host {
			return resp, err
		}
		resp.Body.Close()
		if logins == 1 {
			return nil, e.rejected(resp, sent)
		}
		own, err := e.login(ctx, resp, sent)
		if err != nil {
			return nil, err
		}
		if own {
			logins++
		}
	}
}

func (e *endpoint) request(ctx context.Context, method, target string, header http.Header, b body) (*http.Request, error) {
	var r io.Reader
	var size int64
	if b != nil {
		var err error
		if r, size, err = b(); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, r)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", e.host, err)
	}
	if b != nil {
		req.ContentLength = size
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "fitout")
	return req, nil
}

// passing says whether a failure may go away by itself, and the pause before
// the next try: what the registry asks for, else a growing one.
func (e *endpoint) passing(resp *http.Response, err error, try int) (time.Duration, bool) {
	pause := time.Second << (try - 1)
	if err != nil {
		// A host that does not answer at all will hardly do so in a minute.
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" && try > 1 {
			return 0, false
		}
		return pause / 2, passingError(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return max(retryAfter(resp, e.opts.Now()), pause), true
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return pause, true
	}
	return 0, false
}

// retryAfter reads the header in both its forms, seconds and a date.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	v := resp.Header.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

func (e *endpoint) waitSentence(resp *http.Response, err error, pause time.Duration) string {
	if resp != nil && resp.Header.Get("Retry-After") != "" {
		return fmt.Sprintf("registry %s asks to wait %.0f s", e.host, pause.Seconds())
	}
	if resp != nil {
		return fmt.Sprintf("registry %s answered %s; trying again in %.1f s", e.host, resp.Status, pause.Seconds())
	}
	return fmt.Sprintf("registry %s: %v; trying again in %.1f s", e.host, plainCause(err), pause.Seconds())
}

func (e *endpoint) gaveUp(resp *http.Response, err error, pause time.Duration) error {
	if err != nil {
		return e.nameError(err)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return fail(RateLimited, "registry %s limits the rate of requests and asks to wait another %.0f s", e.host, pause.Seconds()).
			hint("wait, log in with an account that has a higher limit, or use a mirror or an archive")
	}
	return fail(Unreachable, "registry %s keeps answering %s", e.host, resp.Status)
}

// hostOf is the host[:port] of a URL, "" when it is none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}
