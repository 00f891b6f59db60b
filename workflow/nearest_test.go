package workflow_test

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/nodes"
	"fitout/workflow"
	"fitout/workflow/answers"
	"fitout/workflow/finding"
)

// When there is no image for the running kernel, the plan's refusal and the
// verdict both name the nearest kernel that has one, and the newest.
func TestKernelsThatHaveAnImageAreNamed(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, tag := range []string{"1-6.1.0-49-amd64", "1-6.1.0-55-amd64", "1-6.1.0-63-amd64", "1-6.1.0-54-rt-amd64", "latest"} {
		ref, err := name.ParseReference(host + "/drivers/e100:" + tag)
		require.NoError(t, err)
		require.NoError(t, remote.Write(ref, empty.Image))
	}
	for want, c := range map[string]struct {
		host string
		exit int
	}{
		"the nearest kernel with an image is 6.1.0-55-amd64, the newest 6.1.0-63-amd64": {host, workflow.ExitNoMatch},
		"the registry could not be asked":                                               {"127.0.0.1:1", workflow.ExitUnreachable},
	} {
		e := engineOn(t)
		e.PlainHTTP = true
		d := catalog.Driver{Name: "intel-e100", Match: []string{"pci:v00008086d00001229sv*sd*bc02sc00i*"}, Modules: []string{"e100"},
			Images: []catalog.Mapping{{Kernel: `^6\.1\.0-\d+-amd64$`, Reference: c.host + "/drivers/e100:1-${KERNEL_FULL_VERSION}"},
				{Kernel: `^5\.`, Reference: c.host + "/drivers/e100:old-${KERNEL_FULL_VERSION}"}}}
		e.Catalog.Drivers = append(e.Catalog.Drivers, d)
		a := answers.Default()
		a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "intel-e100", When: answers.LoadNow}}
		_, err := e.Plan(t.Context(), a, nil)
		var stop *workflow.Error
		require.ErrorAs(t, err, &stop)
		require.Equal(t, c.exit, stop.Exit, "%v", err)
		if c.host == host {
			require.True(t, said(stop.Findings, want), "%+v", stop.Findings)
		}

		s, err := e.Survey(t.Context())
		require.NoError(t, err)
		if c.host != host { // a kernel that no mapping is for, and no registry to ask
			d.Images = d.Images[1:]
		}
		x, _ := e.Examine(t.Context(), s, s.Kinds[0], workflow.Offer{Driver: d, References: references(c.host == host, c.host)}, nil)
		require.Equal(t, nodes.Release, x.Judgements[0].Release)
		require.True(t, said(x.Judgements[0].Findings, want), "%+v", x.Judgements[0].Findings)
	}
}

func references(mapped bool, host string) map[string]string {
	if !mapped {
		return map[string]string{}
	}
	return map[string]string{nodes.Release: host + "/drivers/e100:1-" + nodes.Release}
}

func said(found []finding.Finding, text string) bool {
	for _, f := range found {
		if strings.Contains(f.Message, text) {
			return true
		}
	}
	return false
}
