package judge

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/workflow/finding"
)

// The host has a module of the same name, which is another driver.
func TestDamagedModuleIsNotReplacedByTheHostsOwn(t *testing.T) {
	for name, modules := range map[string][]string{"named": {"mii"}, "needed": {"e100"}, "all of the image": nil} {
		b := newImage(t).with(k57, "e100.ko")
		b.inv.Kernels[0].Unusable = []image.Unusable{{Path: "opt/lib/modules/" + k57 + "/mii.ko", Why: "mii.ko: cut short"}}
		in := input(t, b)
		in.Devices, in.Modules = nil, modules
		j := Judge(in)
		require.Equal(t, finding.Blocked, j.Verdict, name)
		require.Equal(t, "mii is not a kernel module that can be read: mii.ko: cut short", mustFind(t, j, "not-a-module").Message, name)
		for _, l := range j.Load {
			require.NotEqual(t, "mii", l.Module, name)
		}
	}
}

// Read in the machine: EKEYREJECTED, whether or not signatures are enforced.
func TestContentChangedAfterSigningIsRefusedByEveryKernel(t *testing.T) {
	whole := realModule(t, k57, "dummy.ko")
	changed := bytes.Replace(whole, []byte("parm=numdummies:"), []byte("parm=numdummiez:"), 1)
	require.NotEqual(t, whole, changed)
	signature := bytes.Clone(whole)
	signature[len(signature)-60] ^= 1 // within the signature proper
	for name, c := range map[string]struct {
		file []byte
		want finding.Verdict
	}{"as it was signed": {whole, finding.OK}, "content": {changed, finding.Blocked}, "signature": {signature, finding.Blocked}} {
		in := input(t, newImage(t).file(k57, "dummy.ko", c.file))
		in.Devices, in.Modules = nil, []string{"dummy"}
		// The sample of the test's kernel is its dummy.ko, in the module table too.
		j := Judge(in)
		require.Equal(t, c.want, j.Verdict, "%s: %v", name, j.Findings)
		if c.want == finding.Blocked {
			require.Contains(t, mustFind(t, j, "signature-damaged").Message, "changed after it was signed")
		}
	}
}

// A kernel takes it for a module that is not signed, of whatever form it is.
func TestSignatureOfAFormTheKernelDoesNotKnow(t *testing.T) {
	b := bytes.Clone(realModule(t, k57, "dummy.ko"))
	b[len(b)-len("~Module signature appended~\n")-12+2] = 0
	in := input(t, newImage(t).file(k57, "dummy.ko", b))
	in.Devices, in.Modules = nil, []string{"dummy"}
	require.Equal(t, finding.OK, Judge(in).Verdict)
	in.Policy.SigEnforce = true
	j := Judge(in)
	require.Equal(t, finding.Blocked, j.Verdict)
	require.Equal(t, finding.Block, mustFind(t, j, "signature-crypto").Severity)
}
