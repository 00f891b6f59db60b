package image

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// authState is the login of one endpoint: a scheme the registry asked for and
// what to send.
//
// Layers are fetched beside each other, so it is used by several goroutines.
type authState struct {
	mu sync.Mutex
	// header is the value of Authorization, "" for none.
	header string
	// login is what was found for this registry, nil before it was searched
	// for.
	login atomic.Pointer[credential]
}

// known is the login that was found, if any.
func (a *authState) known() credential {
	if l := a.login.Load(); l != nil {
		return *l
	}
	return credential{}
}

// apply puts the login on a request and says what it sent.
func (a *authState) apply(req *http.Request) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.header != "" {
		req.Header.Set("Authorization", a.header)
	}
	return a.header
}

// login answers a 401: it finds credentials and, for a token registry, fetches
// a token. A token that ran out is replaced the same way. own is false when
// another request had logged in meanwhile.
func (e *endpoint) login(ctx context.Context, resp *http.Response, sent string) (own bool, err error) {
	e.auth.mu.Lock()
	defer e.auth.mu.Unlock()
	if e.auth.header != sent {
		return false, nil
	}
	return true, e.answer(ctx, resp, sent)
}

// answer does what the registry's challenge asks for.
func (e *endpoint) answer(ctx context.Context, resp *http.Response, sent string) error {
	scheme, params := parseChallenge(resp.Header.Values("WWW-Authenticate"))
	if e.auth.login.Load() == nil {
		found := findCredential(e.opts, e.loginName, e.repository, e.own.login)
		e.auth.login.Store(&found)
	}
	login := e.auth.known()
	switch scheme {
	case "basic":
		if login.username == "" || strings.HasPrefix(sent, "Basic ") {
			return e.rejected(resp, sent)
		}
		e.auth.header = login.basic()
		return nil
	case "bearer":
		token, err := e.fetchToken(ctx, params, login)
		if err != nil {
			return err
		}
		e.auth.header = "Bearer " + token
		return nil
	}
	return fail(Unauthorised, "registry %s wants a login of an unknown kind %q", e.host, resp.Header.Get("WWW-Authenticate"))
}

// rejected says why a 401 is final.
func (e *endpoint) rejected(resp *http.Response, sent string) error {
	if skew := clockSkew(resp, e.opts.Now()); skew != 0 && strings.HasPrefix(sent, "Bearer ") {
		return fail(ClockSkew, "registry %s rejects a token that is new; its clock and this node's differ by %s", e.host, skew.Round(time.Second)).
			hint("set this node's clock (timedatectl, chronyc makestep) and try again")
	}
	login := e.auth.known()
	if login.username == "" && login.identity == "" {
		return fail(Unauthorised, "registry %s needs a login for %s", e.host, e.repository).
			hint("no credentials for %s in %s; write them with podman login --authfile FILE or name a file in the answers (secrets.registryAuth.file)",
				e.loginName, strings.Join(login.looked, ", "))
	}
	return fail(Unauthorised, "registry %s refused the login for user %s from %s", e.host, or(login.username, "(token)"), login.from).
		hint("check the user name and password in %s", login.from)
}

// skewAllowed is how far clocks may be apart before a rejected token or
// certificate is put down to them.
const skewAllowed = 2 * time.Minute

// clockSkew compares the registry's Date with this node's clock; 0 when near.
func clockSkew(resp *http.Response, now time.Time) time.Duration {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0
	}
	if d := now.Sub(t).Abs(); d > skewAllowed {
		return d
	}
	return 0
}

// tokenBytes bounds a token server's answer.
const tokenBytes = 256 << 10

// fetchToken asks the token server that the registry named, as in
// distribution's token specification; an identity token goes by OAuth2's form.
func (e *endpoint) fetchToken(ctx context.Context, params map[string]string, login credential) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" {
		return "", fail(Unauthorised, "registry %s names no token server (%q)", e.host, params["realm"])
	}
	if err := e.checkRealm(realm); err != nil {
		return "", err
	}
	scope := or(params["scope"], "repository:"+e.repository+":"+or(e.scope, "pull"))
	req, err := tokenRequest(ctx, realm, params["service"], scope, login)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", "fitout")
	resp, err := e.client.Do(req)
	if err != nil {
		return "", e.nameError(fmt.Errorf("token server %s: %w", realm.Host, err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusBadRequest && login.username != "":
		return "", e.rejected(resp, "")
	case resp.StatusCode != http.StatusOK:
		return "", fail(Unauthorised, "token server %s of registry %s answers %s", realm.Host, e.host, resp.Status)
	}
	raw, err := readAll(resp.Body, "token", tokenBytes)
	if err != nil {
		return "", err
	}
	var t struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(raw, &t); err != nil || or(t.Token, t.AccessToken) == "" {
		return "", fail(Unauthorised, "token server %s of registry %s gives no token", realm.Host, e.host)
	}
	return or(t.Token, t.AccessToken), nil
}

// checkRealm keeps credentials off servers that a registry has no business to
// send us to: plain HTTP from a registry with TLS, and the address under which
// clouds hand out a machine's own secrets.
func (e *endpoint) checkRealm(realm *url.URL) error {
	secure := strings.HasPrefix(e.base, "https://")
	if realm.Scheme != "https" && (secure || realm.Scheme != "http") {
		return fail(Hostile, "registry %s sends the login to %s://%s, which is not encrypted", e.host, realm.Scheme, realm.Host)
	}
	if ip := net.ParseIP(realm.Hostname()); ip != nil && ip.IsLinkLocalUnicast() {
		return fail(Hostile, "registry %s sends the login to the link-local address %s", e.host, realm.Host)
	}
	return nil
}

func tokenRequest(ctx context.Context, realm *url.URL, service, scope string, login credential) (*http.Request, error) {
	if login.identity != "" {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {login.identity}, "service": {service}, "scope": {scope}, "client_id": {"fitout"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return nil, fmt.Errorf("asking token server %s: %w", realm.Host, err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return req, nil
	}
	q := realm.Query()
	if service != "" {
		q.Set("service", service)
	}
	q["scope"] = strings.Fields(scope)
	u := *realm
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking token server %s: %w", realm.Host, err)
	}
	if login.username != "" {
		req.Header.Set("Authorization", login.basic())
	}
	return req, nil
}

// parseChallenge reads WWW-Authenticate headers and prefers the scheme we can
// answer; a proxy in front may add others (RFC 9110, 11.6.1).
func parseChallenge(values []string) (scheme string, params map[string]string) {
	for _, v := range values {
		s, rest, _ := strings.Cut(strings.TrimSpace(v), " ")
		switch s = strings.ToLower(s); s {
		case "bearer", "basic":
			return s, challengeParams(rest)
		}
	}
	return "", nil
}

func challengeParams(s string) map[string]string {
	params := map[string]string{}
	for s = strings.TrimLeft(s, " ,"); s != ""; s = strings.TrimLeft(s, " ,") {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return params
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			value, s, _ = strings.Cut(rest[1:], `"`)
		} else {
			value, s, _ = strings.Cut(rest, ",")
		}
		params[strings.ToLower(strings.TrimSpace(key))] = value
	}
	return params
}
