package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fitout/hostops"
)

// kubectl reaches the API server through the node's own kubectl: it knows ways to
// prove who one is (programs that hand out tokens, and more to come) which a
// client certificate or a token in the kubeconfig is not.
type kubectl struct {
	n      *hostops.Node
	argv   []string // "k3s", "kubectl"
	config string   // node path of the kubeconfig
}

// kubectlOf is the node's kubectl, nil where there is none.
func kubectlOf(n *hostops.Node, d *distribution, config string) *kubectl {
	if d == nil {
		return nil
	}
	for _, command := range []string{d.kubectl, "kubectl"} {
		if argv := strings.Fields(command); n.Exec.Look(argv[0]) {
			return &kubectl{n: n, argv: argv, config: config}
		}
	}
	return nil
}

// send makes one request, as [api.send] does. kubectl speaks plain paths with
// GET and POST (--raw); a patch has to be said in its own words.
func (k *kubectl) send(ctx context.Context, method, p string, body []byte, into any) (time.Time, error) {
	dir, err := os.MkdirTemp(k.n.Path("/run"), "fitout-kubectl-")
	if err != nil {
		return time.Time{}, err
	}
	defer os.RemoveAll(dir)
	answer, given := path.Join(dir, "answer"), path.Join(dir, "body")
	if err := os.WriteFile(given, body, 0o600); err != nil {
		return time.Time{}, err
	}
	args := append([]string{}, k.argv...)
	args = append(args, "--kubeconfig", k.n.Path(k.config), "--cache-dir", path.Join(dir, "cache"), "--request-timeout", "10s")
	switch method {
	case http.MethodGet:
		args = append(args, "get", "--raw", p)
	case http.MethodPost:
		args = append(args, "create", "--raw", p, "-f", given)
	case http.MethodPatch:
		args = append(args, "patch", "node", path.Base(p), "--type", "merge", "--output", "json", "--patch", string(body))
	default:
		return time.Time{}, fmt.Errorf("kubectl has no way to say %s", method)
	}
	// The answer goes into a file: a list of pods is longer than what is kept of
	// a command's output.
	said, err := k.n.Exec.Run(ctx, append([]string{"sh", "-c", `out=$1; shift; exec "$@" >"$out"`, "sh", answer}, args...)...)
	if err != nil {
		return time.Time{}, refused(method+" "+p, string(said), err)
	}
	data, err := os.ReadFile(answer)
	if err != nil || into == nil {
		return time.Time{}, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return time.Time{}, fmt.Errorf("reading kubectl's answer to %s %s: %w", method, p, err)
	}
	return time.Time{}, nil
}

// codes are HTTP's for the reasons that kubectl puts in brackets
// (k8s.io/apimachinery/pkg/apis/meta/v1, StatusReason).
var codes = map[string]int{
	"Unauthorized": http.StatusUnauthorized, "Forbidden": http.StatusForbidden, "NotFound": http.StatusNotFound,
	"Conflict": http.StatusConflict, "TooManyRequests": http.StatusTooManyRequests, "MethodNotAllowed": http.StatusMethodNotAllowed,
	"BadRequest": http.StatusBadRequest, "Invalid": http.StatusUnprocessableEntity,
	"InternalError": http.StatusInternalServerError, "ServiceUnavailable": http.StatusServiceUnavailable,
	"Timeout": http.StatusGatewayTimeout, "ServerTimeout": http.StatusInternalServerError,
}

var (
	kubectlReason = regexp.MustCompile(`Error from server \(([A-Za-z]+)\): (.*)`)
	kubectlCode   = regexp.MustCompile(`an error on the server \("(.*)"\) has prevented|server .*responded with.* ([45]\d\d)`)
)

// refused is kubectl's failure as an answer of the server, where it was one.
func refused(request, said string, err error) error {
	said = strings.TrimSpace(said)
	if m := kubectlReason.FindStringSubmatch(said); m != nil {
		if code := codes[m[1]]; code != 0 {
			return &statusError{code, request, m[2]}
		}
	}
	if m := kubectlCode.FindStringSubmatch(said); m != nil {
		code, _ := strconv.Atoi(m[2])
		return &statusError{max(code, http.StatusInternalServerError), request, said}
	}
	return fmt.Errorf("asking with kubectl: %w: %s", err, said)
}

// unproven says that an error means: the server did not take who we are.
func unproven(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code == http.StatusUnauthorized || status.code == http.StatusForbidden && strings.Contains(status.message, "system:anonymous")
	}
	text := fmt.Sprint(err)
	return err != nil && (strings.Contains(text, "tls: ") || strings.Contains(text, "x509: "))
}
