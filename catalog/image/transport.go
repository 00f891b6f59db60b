package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// connect makes the HTTP client of an endpoint on first use.
func (e *endpoint) connect() error {
	if e.client != nil {
		return nil
	}
	e.trust = loadTrust(e.opts, e.host, e.own)
	proxy := proxyFunc(e.opts)
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext: (&net.Dialer{
			Timeout:   15 * time.Second,
			KeepAlive: 30 * time.Second,
		}).DialContext,
		TLSClientConfig: &tls.Config{
			RootCAs:            e.trust.pool,
			Certificates:       e.trust.pairs,
			InsecureSkipVerify: e.skipVerify,
			Time:               e.opts.Now,
			MinVersion:         tls.VersionTLS12,
		},
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  60 * time.Second,
		IdleConnTimeout:        60 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true, // digests are over the bytes as they lie there
		OnProxyConnectResponse: proxyAnswer,
	}
	e.client = &http.Client{Transport: t, CheckRedirect: e.redirect}
	return nil
}

// redirect follows a registry to its storage. The login stays with the host
// that asked for it (net/http would send it on to another port or a
// sub-domain), and an encrypted way does not become a plain one.
func (e *endpoint) redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fail(Hostile, "registry %s redirects to %s, which is not encrypted", e.host, req.URL.Host)
	}
	if ip := net.ParseIP(req.URL.Hostname()); ip != nil && ip.IsLinkLocalUnicast() && req.URL.Host != via[0].URL.Host {
		return fail(Hostile, "registry %s redirects to the link-local address %s", e.host, req.URL.Host)
	}
	if req.URL.Host != via[0].URL.Host {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return nil
}

// proxyError is the answer of a proxy that would not open a tunnel.
type proxyError struct {
	url, status string
	code        int
}

func (p *proxyError) Error() string { return fmt.Sprintf("the proxy %s answered %s", p.url, p.status) }

func proxyAnswer(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyError{url: redacted(proxy), status: resp.Status, code: resp.StatusCode}
}

// fallBack switches to plain HTTP when that is allowed and https did not get
// an answer. It happens once; the https failure is kept for the message.
func (e *endpoint) fallBack(err error) bool {
	if e.fallback == "" || passingError(err) && !isHTTPAnswer(err) && !refused(err) {
		return false
	}
	var own *Error
	if errors.As(err, &own) || errors.Is(err, context.Canceled) {
		return false
	}
	e.opts.Log(fmt.Sprintf("registry %s does not answer https (%v); trying plain HTTP, which is allowed", e.host, plainCause(err)))
	e.own.httpsFailure = plainCause(err).Error()
	e.base, e.fallback = e.fallback, ""
	return true
}

// isHTTPAnswer says whether a server spoke HTTP where TLS was begun.
func isHTTPAnswer(err error) bool {
	var rec tls.RecordHeaderError
	return errors.As(err, &rec) && strings.HasPrefix(string(rec.RecordHeader[:]), "HTTP") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}
