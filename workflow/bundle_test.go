package workflow_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/workflow"
)

func TestBundleHoldsTheStateAndNoSecret(t *testing.T) {
	e := engineOn(t)
	require.NoError(t, e.Node.WriteFile("/var/lib/fitout/runs/2026-1130-01/runner.log",
		[]byte("proxy http://u1:S3cret/+=x@proxy:3128\nhttps://u1:S3cretx@registry.example/v2\nAuthorization: Bearer eyJabc\n{\"auth\": \"dTE6UzNjcmV0\", \"identitytoken\":\"eyJabc\"}\n"), 0o600))
	files, err := e.BundleFiles(context.Background(), "")
	require.NoError(t, err)
	var buf bytes.Buffer
	require.NoError(t, workflow.WriteBundle(&buf, files))
	z, err := gzip.NewReader(&buf)
	require.NoError(t, err)
	names, all := []string{}, ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		names, all = append(names, h.Name), all+string(data)
	}
	require.Contains(t, names, "fitout-bundle/survey.json")
	require.Contains(t, names, "fitout-bundle/proc/modules")
	require.Contains(t, names, "fitout-bundle/var/lib/fitout/runs/2026-1130-01/runner.log")
	for _, secret := range []string{"S3cretx", "eyJabc", "dTE6UzNjcmV0"} {
		require.NotContains(t, all, secret)
	}
	require.True(t, strings.Contains(all, "REDACTED"))
}
