package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// credential is a login and where it came from. It never appears in a message
// but for the user's name and the file's.
type credential struct {
	username, password string
	identity           string // an OAuth2 refresh token
	from               string
	// looked are the files that were searched, for the hint.
	looked []string
}

func (c credential) empty() bool { return c.username == "" && c.identity == "" }

func (c credential) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.username+":"+c.password))
}

// authFile is docker's config.json and podman's auth.json.
type authFile struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
	CredsStore  string            `json:"credsStore"`
	CredHelpers map[string]string `json:"credHelpers"`
}

// authFiles lists the credential files in the order they are asked: those of
// the answers, podman's (containers-auth.json(5)), docker's, the kubelet's.
func authFiles(opts Options) []string {
	files := append([]string(nil), opts.AuthFiles...)
	add := func(dir, name string) {
		if dir != "" {
			files = append(files, opts.path(filepath.Join(dir, name)))
		}
	}
	env := opts.Getenv
	if f := env("REGISTRY_AUTH_FILE"); f != "" {
		files = append(files, opts.path(f))
	}
	add(env("XDG_RUNTIME_DIR"), "containers/auth.json")
	add("/run/containers/"+strconv.Itoa(os.Getuid()), "auth.json")
	home := or(env("HOME"), "/root")
	add(or(env("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "containers/auth.json")
	add(or(env("DOCKER_CONFIG"), filepath.Join(home, ".docker")), "config.json")
	add("/etc/containers", "auth.json")
	add("/var/lib/kubelet", "config.json")
	return files
}

// findCredential gives the login for a repository: the most specific key of the
// first file that has one, else what the node configures for the host itself,
// else none (an anonymous pull). A file that cannot be read is told and passed.
func findCredential(opts Options, host, repository string, own credential) credential {
	var looked []string
	for _, name := range authFiles(opts) {
		raw, err := os.ReadFile(name)
		if err != nil {
			if !os.IsNotExist(err) {
				opts.Log(fmt.Sprintf("credential file %s: %v", name, err))
			} else if isOneOf(name, opts.AuthFiles) {
				opts.Log(fmt.Sprintf("credential file %s is not there", name))
			}
			continue
		}
		looked = append(looked, name)
		var file authFile
		if err := json.Unmarshal(raw, &file); err != nil {
			opts.Log(fmt.Sprintf("credential file %s is not valid JSON and is passed over", name))
			continue
		}
		if c := file.find(opts, host, repository, name); !c.empty() {
			return c
		}
	}
	own.looked = looked
	if len(looked) == 0 {
		own.looked = []string{"any of " + strings.Join(authFiles(opts), ", ")}
	}
	return own
}

func isOneOf(s string, list []string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// find looks the repository up, the most specific key first, as podman does:
// host/a/b, host/a, host; then docker's URL forms.
func (f authFile) find(opts Options, host, repository, from string) credential {
	for _, key := range authKeys(host, repository) {
		a, ok := f.Auths[key]
		if !ok {
			continue
		}
		c := credential{username: a.Username, password: a.Password, identity: a.IdentityToken, from: from}
		if a.Auth != "" {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimRight(a.Auth, "=") + strings.Repeat("=", (4-len(strings.TrimRight(a.Auth, "="))%4)%4))
			if err != nil {
				opts.Log(fmt.Sprintf("credential file %s: the entry %s is not base64", from, key))
				continue
			}
			c.username, c.password, _ = strings.Cut(string(raw), ":")
		}
		if !c.empty() {
			return c
		}
	}
	for _, key := range authKeys(host, "") {
		if helper := or(f.CredHelpers[key], f.CredsStore); helper != "" {
			if c := askHelper(opts, helper, key, from); !c.empty() {
				return c
			}
		}
	}
	return credential{}
}

func authKeys(host, repository string) []string {
	var keys []string
	hosts := []string{host}
	if host == dockerHub {
		hosts = []string{dockerHub, "index.docker.io", dockerHubHost}
	}
	for _, h := range hosts {
		for p := repository; p != ""; {
			keys = append(keys, h+"/"+p)
			i := strings.LastIndexByte(p, '/')
			p = p[:max(i, 0)]
		}
		keys = append(keys, h, "https://"+h, "https://"+h+"/v1/", "https://"+h+"/v2/", "http://"+h)
	}
	return keys
}

// helperTime bounds a credential helper; one that asks a person would hang.
const helperTime = 10 * time.Second

// askHelper runs docker-credential-NAME get, as docker does. A helper that is
// not installed is told and passed over.
func askHelper(opts Options, helper, key, from string) credential {
	if strings.ContainsAny(helper, "/\\") {
		return credential{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(key)
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		// Helpers say "not found" on their output, which may hold a secret too.
		opts.Log(fmt.Sprintf("credential helper docker-credential-%s (named by %s) has nothing for %s: %v", helper, from, key, err))
		return credential{}
	}
	var c struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		opts.Log(fmt.Sprintf("credential helper docker-credential-%s gives no JSON", helper))
		return credential{}
	}
	if c.Username == "<token>" {
		return credential{identity: c.Secret, from: "docker-credential-" + helper}
	}
	return credential{username: c.Username, password: c.Secret, from: "docker-credential-" + helper}
}
