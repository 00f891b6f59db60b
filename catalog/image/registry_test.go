package image

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tunnel joins a CONNECT request with a connection to address to.
func tunnel(t testing.TB, w http.ResponseWriter, to string) {
	out, err := net.Dial("tcp", to)
	require.NoError(t, err)
	in, _, err := w.(http.Hijacker).Hijack()
	require.NoError(t, err)
	_, err = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	require.NoError(t, err)
	go func() { io.Copy(out, in); out.Close() }()
	go func() { io.Copy(in, out); in.Close() }()
}

func isBlob(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }

// layerBlob says whether a request is for the test image's only layer.
func layerBlob(img *Image, r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, img.manifest.Layers[0].Digest.String())
}

// A pull from a registry in good order.
func TestPullFromARegistryWithItsOwnAuthority(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("drivers/d:1", oneModule(t))
	for _, dir := range []string{"containers", "docker"} {
		root := t.TempDir()
		write(t, root, "etc/"+dir+"/certs.d/"+f.host()+"/ca.crt", pemText("CERTIFICATE", f.Certificate().Raw))
		write(t, root, "etc/"+dir+"/certs.d/"+f.host()+"/broken.crt", "no PEM")
		var said []string
		img, err := openAt(t, ref, Options{Root: root, Log: func(s string) { said = append(said, s) }})
		require.NoError(t, err, dir)
		require.Contains(t, strings.Join(said, "\n"), "broken.crt holds no certificate")
		inv, err := img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err)
		require.Equal(t, "dummy", inv.Kernels[0].Modules[0].Info.Name)
		require.Equal(t, img.Size(), inv.Fetched)
	}
}

// A token that runs out between two requests or in the middle of a layer is
// replaced once, unseen.
func TestTokenIsRenewedInTheMiddleOfAPull(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")})))
	k := &tokens{uses: 1, left: map[string]int{}, host: f.host()}
	n := 0
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if k.handle(w, r) {
			return true
		}
		if isBlob(r) && n < 3 {
			n++
			return breakAfter(&passOn{w, f.inner}, r, 5000)
		}
		return false
	})
	for _, auth := range []string{login(f.host(), secretUser, secretPassword), fmt.Sprintf(`{"auths":{%q:{"identitytoken":"identity"}}}`, f.host())} {
		img, err := openAt(t, ref, Options{Root: f.root(map[string]string{"root/.docker/config.json": auth})})
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err)
		require.Greater(t, k.issued, 2)
		n = 0
	}
}

// A new token that is rejected while the clocks differ is put down to them.
func TestRejectedTokenOfAnotherClockIsNamed(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	k := &tokens{uses: 0, left: map[string]int{}, host: f.host()}
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		return k.handle(w, r)
	})
	root := f.root(map[string]string{"root/.docker/config.json": login(f.host(), secretUser, secretPassword)})
	_, err := openAt(t, ref, Options{Root: root})
	require.Equal(t, ClockSkew, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "differ by 1h0m")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Hint, "set this node's clock")
}

// Absent, wrong and insufficient credentials have different words, name the
// files that were read, and never the secret.
func TestCredentialFaultsAreToldApart(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("team/d:1", oneModule(t))
	wrong := login(f.host(), secretUser, "wrong")
	for _, tc := range []struct {
		name  string
		token bool
		files map[string]string
		code  Code
		says  string
		hint  string
	}{
		{"none", false, nil, Unauthorised, "needs a login", "auth.json"},
		{"for another host", false, map[string]string{"root/.docker/config.json": login("other.example", "a", "b")}, Unauthorised, "needs a login", "root/.docker/config.json"},
		{"wrong", false, map[string]string{"root/.docker/config.json": wrong}, Unauthorised, "refused the login for user u1", "root/.docker/config.json"},
		{"wrong at the token server", true, map[string]string{"root/.docker/config.json": wrong}, Unauthorised, "refused the login for user u1", "root/.docker/config.json"},
		{"a file that is no JSON", false, map[string]string{"root/.docker/config.json": "{"}, Unauthorised, "needs a login", "config.json"},
		{"a helper that is not installed", false, map[string]string{"root/.docker/config.json": `{"credsStore":"nosuchhelper"}`}, Unauthorised, "needs a login", "config.json"},
		{"docker's file", false, map[string]string{"root/.docker/config.json": login(f.host(), secretUser, secretPassword)}, "", "", ""},
		{"podman's file, by repository", true, map[string]string{"root/.config/containers/auth.json": login(f.host()+"/team/d", secretUser, secretPassword)}, "", "", ""},
		{"podman's file, by name space", false, map[string]string{"etc/containers/auth.json": login(f.host()+"/team", secretUser, secretPassword)}, "", "", ""},
		{"the kubelet's file", false, map[string]string{"var/lib/kubelet/config.json": login("https://"+f.host()+"/v1/", secretUser, secretPassword)}, "", "", ""},
		{"RKE2's registries.yaml", true, map[string]string{"etc/rancher/rke2/registries.yaml": "configs:\n  \"" + f.host() + "\":\n    auth: {username: " + secretUser + ", password: \"" + secretPassword + "\"}\n"}, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &tokens{uses: 100, left: map[string]int{}, host: f.host()}
			if f.misbehave(basicAuth); tc.token {
				f.misbehave(k.handle)
			}
			var said []string
			img, err := openAt(t, ref, Options{Root: f.root(tc.files), Log: func(s string) { said = append(said, s) }})
			require.Equal(t, tc.code, CodeOf(err), "%v", err)
			text := strings.Join(said, "\n") + fmt.Sprintf("%v %+v", err, err)
			if tc.code != "" {
				require.ErrorContains(t, err, tc.says)
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Contains(t, e.Hint, tc.hint)
				text += e.Hint
			} else {
				_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
				require.NoError(t, err)
			}
			for _, secret := range []string{secretPassword, "S3cret%2F%2B%3Dx", "dTE6UzNjcmV0LysgPXg", "dTE6UzNjcmV0LysrPXg=", "eyJabc"} {
				require.NotContains(t, text, secret)
			}
		})
	}
	require.LessOrEqual(t, len(f.requests), 8, "no loop over rejected logins")
}

// A credential helper is asked as docker asks it.
func TestCredentialHelperIsAsked(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	f.misbehave(basicAuth)
	bin := t.TempDir()
	script := "#!/bin/sh\nread host\n[ \"$1 $host\" = \"get " + f.host() + "\" ] || exit 1\nprintf '{\"Username\":\"" + secretUser + "\",\"Secret\":\"" + secretPassword + "\"}'\n"
	write(t, bin, "docker-credential-store1", script)
	require.NoError(t, os.Chmod(filepath.Join(bin, "docker-credential-store1"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, file := range []string{`{"credsStore":"store1"}`, `{"credHelpers":{"` + f.host() + `":"store1"}}`} {
		_, err := openAt(t, ref, Options{Root: f.root(map[string]string{"root/.docker/config.json": file})})
		require.NoError(t, err)
	}
}

// What is missing is told apart: the tag, the repository, the right.
func TestMissingTagIsToldFromAMissingRepository(t *testing.T) {
	f := newRegistry(t, true)
	for _, tag := range []string{"535-5.15.0-117-generic-ubuntu22.04", "535-5.15.0-91-generic-ubuntu22.04", "550.54.15-5.15.0-118-generic-ubuntu22.04", "latest"} {
		f.push("driver:"+tag, oneModule(t))
	}
	root := f.root(nil)
	_, err := openAt(t, f.host()+"/driver:535-5.15.0-118-generic-ubuntu22.04", Options{Root: root})
	require.Equal(t, TagMissing, CodeOf(err))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "535-5.15.0-117-generic-ubuntu22.04", e.Tags[0])
	require.ErrorContains(t, err, "is readable, but has no tag 535-5.15.0-118-generic-ubuntu22.04")

	_, err = openAt(t, f.host()+"/driver:550.54.15", Options{Root: root})
	require.ErrorContains(t, err, "1 tags begin with 550.54.15-")
	require.ErrorAs(t, err, &e)
	require.Equal(t, "550.54.15-5.15.0-118-generic-ubuntu22.04", e.Tags[0])

	f.push("other:1", oneModule(t)) // a tag that is like none of them
	_, err = openAt(t, f.host()+"/other:zz", Options{Root: root})
	require.ErrorAs(t, err, &e)
	require.Equal(t, "published: 1", e.Hint)

	_, err = openAt(t, f.host()+"/nosuch:1", Options{Root: root})
	require.Equal(t, NotFound, CodeOf(err))
	require.ErrorContains(t, err, "does not exist or is not visible to anonymous")

	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool { return status(w, http.StatusForbidden) })
	_, err = openAt(t, f.host()+"/driver:latest", Options{Root: root})
	require.Equal(t, Denied, CodeOf(err))
}

// The certificate is the headline, never a plain-HTTP attempt after it.
func TestUntrustedCertificateIsTheHeadline(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	_, err := openAt(t, ref, Options{})
	require.Equal(t, TLS, CodeOf(err))
	require.ErrorContains(t, err, "Acme Co")
	require.ErrorContains(t, err, f.host())
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Hint, "/etc/containers/certs.d/"+f.host()+"/ca.crt")
	require.Empty(t, f.requests)

	_, err = openAt(t, ref, Options{Root: rootWith(t, "etc/containers/registries.conf", "[[registry]]\nlocation = \""+f.host()+"\"\ninsecure = true\n")})
	require.NoError(t, err, "insecure in registries.conf means an untrusted certificate too")

	old := func() time.Time { return time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC) }
	_, err = openAt(t, ref, Options{Root: f.root(nil), Now: old})
	require.Equal(t, ClockSkew, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "this node's clock says 1960-01-01")
	late := func() time.Time { return time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC) }
	_, err = openAt(t, ref, Options{Root: f.root(nil), Now: late})
	require.Equal(t, TLS, CodeOf(err))
	require.ErrorContains(t, err, "ran out on")
}

func TestPlainHTTPOnlyWhenTold(t *testing.T) {
	f := newRegistry(t, false)
	ref := f.push("d:1", oneModule(t))
	_, err := openAt(t, ref, Options{})
	require.Equal(t, PlainHTTP, CodeOf(err))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Hint, "--plain-http (the risk plain-http; ")
	for _, o := range []Options{
		{PlainHTTP: true},
		{Root: f.root(map[string]string{"etc/containers/registries.conf": "[[registry]]\nlocation = \"" + f.host() + "\"\ninsecure = true\n"})},
		{Root: f.root(map[string]string{"etc/rancher/k3s/registries.yaml": "mirrors:\n  \"*\":\n    endpoint: [\"http://" + f.host() + "\"]\n"})},
	} {
		img, err := openAt(t, ref, o)
		require.NoError(t, err)
		_, err = img.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
		require.NoError(t, err)
	}
	f.Close()
	_, err = openAt(t, ref, Options{PlainHTTP: true})
	require.Equal(t, Unreachable, CodeOf(err))
	require.ErrorContains(t, err, "1. https:")
	require.ErrorContains(t, err, "2. plain HTTP")
}

// The login stays with the registry when it redirects to its storage.
func TestRedirectDoesNotTakeTheLoginAlong(t *testing.T) {
	storage := newRegistry(t, true)
	f := newRegistry(t, true)
	img := oneModule(t)
	storage.push("d:1", img)
	ref := f.push("d:1", img)
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if basicAuth(w, r) {
			return true
		}
		if isBlob(r) {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	root := f.root(map[string]string{"root/.docker/config.json": login(f.host(), secretUser, secretPassword)})
	write(t, root, "etc/containers/certs.d/"+f.host()+"/storage.crt", pemText("CERTIFICATE", storage.Certificate().Raw))
	opened, err := openAt(t, ref, Options{Root: root})
	require.NoError(t, err)
	_, err = opened.Fetch(t.Context(), filepath.Join(t.TempDir(), "s"), Want{})
	require.NoError(t, err)
	require.NotEmpty(t, storage.requests)
	for _, r := range storage.requests {
		require.Empty(t, r.Header.Get("Authorization"))
	}

	plain := newRegistry(t, false)
	plain.push("d:1", img)
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if isBlob(r) {
			http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}
		return isBlob(r)
	})
	_, err = openAt(t, ref, Options{Root: root})
	require.Equal(t, Hostile, CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "not encrypted")
}

// A cancelled pull ends at once and leaves nothing but what the next one goes on
// from, which no process holds.
func TestCancelledPullLeavesNothing(t *testing.T) {
	f := newRegistry(t, true)
	ref := f.push("d:1", oneModule(t))
	img, err := openAt(t, ref, Options{Root: f.root(nil), Sleep: sleep})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	f.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	dir := filepath.Join(t.TempDir(), "s")
	_, err = img.Fetch(ctx, dir, Want{})
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "s"+partName, left[0].Name())
	require.False(t, Fetching(dir+partName))
	for name := range treeOf(t, dir+partName) {
		require.Contains(t, []string{"/" + markerName, "/" + resumptionName}, name)
	}
}
