package image

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// passingError says whether a network failure may go away by itself.
func passingError(err error) bool {
	var own *Error
	if err == nil || errors.As(err, &own) || errors.Is(err, context.Canceled) {
		return false
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTemporary && !dns.IsNotFound
	}
	var timeout net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded)
}

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// plainCause drops the "Get "https://…": " that net/http puts before a cause;
// it says nothing new and may hold a signed URL.
func plainCause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// nameError gives a network failure its code, its true cause and a cure.
func (e *endpoint) nameError(err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cause := plainCause(err)
	var proxy *proxyError
	var op *net.OpError
	switch {
	case errors.As(err, &proxy):
		return fail(Proxy, "reaching registry %s", e.host).because(proxy).
			hint("the answer is the proxy's, not the registry's; allow %s there or add it to NO_PROXY", e.host)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return fail(Proxy, "reaching the proxy for registry %s", e.host).because(op.Err).
			hint("check HTTPS_PROXY, or add %s to NO_PROXY", e.host)
	case isHTTPAnswer(err):
		return fail(PlainHTTP, "registry %s speaks plain HTTP, not https", e.host).
			hint("nothing is protected on the way then; allow it with --plain-http (the risk plain-http; in an answers file: acceptRisks: [plain-http]), or with insecure = true for it in /etc/containers/registries.conf")
	}
	if tlsErr := e.nameTLS(cause); tlsErr != nil {
		return tlsErr
	}
	f := fail(Unreachable, "registry %s cannot be reached%s", e.host, e.httpsBefore()).because(cause)
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return f.hint("the name %s does not resolve; check the name and /etc/resolv.conf, or use an archive (oci-archive:FILE)", dns.Name)
	}
	return f.hint("check the network and the port, or use an archive (oci-archive:FILE)")
}

// httpsBefore tells of the https attempt that came before a plain one.
func (e *endpoint) httpsBefore() string {
	if e.own.httpsFailure == "" {
		return ""
	}
	return " (1. https: " + e.own.httpsFailure + "; 2. plain HTTP)"
}

// nameTLS explains a certificate that is not trusted; nil for other errors.
func (e *endpoint) nameTLS(cause error) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(cause, &invalid) && invalid.Reason == x509.Expired && e.opts.Now().Before(invalid.Cert.NotBefore):
		return fail(ClockSkew, "the certificate of registry %s is valid from %s on, and this node's clock says %s", e.host,
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), e.opts.Now().UTC().Format(time.RFC3339)).
			hint("set this node's clock (timedatectl, chronyc makestep) and try again")
	case errors.As(cause, &invalid) && invalid.Reason == x509.Expired:
		return fail(TLS, "the certificate of registry %s ran out on %s", e.host, invalid.Cert.NotAfter.UTC().Format(time.RFC3339)).
			hint("renew it; if it is not out of date, check this node's clock")
	case errors.As(cause, &unknown):
		return fail(TLS, "the certificate of registry %s is signed by an authority that is not trusted (issuer %q)", e.host, issuerOf(unknown.Cert)).because(cause).
			hint("put the authority's certificate into /etc/containers/certs.d/%s/ca.crt, or into the system's store; read were %s", e.host, e.trust.sources())
	case errors.As(cause, &wrongHost):
		return fail(TLS, "the certificate of registry %s is for other names", e.host).because(cause).
			hint("use the name in the certificate, or have one issued for %s", e.host)
	case errors.As(cause, &verify):
		return fail(TLS, "the certificate of registry %s cannot be verified", e.host).because(cause).hint("read were %s", e.trust.sources())
	}
	var alert tls.AlertError
	if errors.As(cause, &alert) {
		return fail(TLS, "registry %s ended the TLS handshake", e.host).because(cause).
			hint("it may want a client certificate: /etc/containers/certs.d/%s/client.cert and client.key; read were %s", e.host, e.trust.sources())
	}
	return nil
}

func issuerOf(c *x509.Certificate) string {
	if c == nil {
		return "unknown"
	}
	return or(c.Issuer.CommonName, c.Issuer.String())
}

// finalStatus turns an answer that stands into the response or an error.
func (e *endpoint) finalStatus(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	why := registryWords(resp)
	user := "anonymous"
	if login := e.auth.known(); !login.empty() {
		user = "user " + or(login.username, "(token)")
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return nil, fail(NotFound, "%s/%s does not exist or is not visible to %s%s", e.host, e.repository, user, why)
	case http.StatusForbidden:
		return nil, fail(Denied, "registry %s: %s has no right to pull %s%s", e.host, user, e.repository, why).
			hint("ask for the right to pull, or log in as another user")
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, fail(Truncated, "registry %s has fewer bytes of %s than the manifest says", e.host, resp.Request.URL.Path)
	case http.StatusProxyAuthRequired:
		return nil, fail(Proxy, "the proxy in front of registry %s wants a login", e.host).hint("put it into HTTPS_PROXY: http://user:password@proxy:port")
	}
	return nil, fail(Unreachable, "registry %s answers %s%s", e.host, resp.Status, why)
}

// registryWords are the codes of a registry's error answer, " (…)".
func registryWords(resp *http.Response) string {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	if err != nil {
		return ""
	}
	var doc struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal(raw, &doc) != nil || len(doc.Errors) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.ToLower(strings.ReplaceAll(doc.Errors[0].Code, "_", " ")))
}
