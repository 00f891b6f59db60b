package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/testdata/hosts"
)

func TestStateThatIsLostIsNotNothingKept(t *testing.T) {
	for name, damage := range map[string]string{"all records": "kept", "one of them": "kept/intel-e100.json"} {
		t.Run(name, func(t *testing.T) {
			n, f, state, _ := gated(t, hosts.Debian())
			require.NoError(t, n.WriteFile(state+"/drivers/intel-e100.json", []byte(`{"driver":{"name":"intel-e100","when":"load-now+persist"}}`), 0o600))
			require.NoError(t, n.RemoveAll(state+"/"+damage))
			err := judgeKernel(context.Background(), n, state, Kernel{Release: kernelA}, GateOptions{Strength: BlocksInstall})
			require.ErrorIs(t, err, ErrRefused)
			require.ErrorContains(t, err, "fitout allow "+kernelA)
			require.ErrorIs(t, HookKernelPrerm(context.Background(), n, state, kernelA), ErrRefused)
			_, err = HookBoot(context.Background(), n, f.Layout())
			require.Error(t, err, "the boot says it too")
			motd, err := n.ReadString(motdPath)
			require.NoError(t, err)
			require.Contains(t, motd, "intel-e100.json is gone")
		})
	}
}

func TestHookWithoutAnyRecordIsLostState(t *testing.T) {
	n, _, state, _ := gated(t, hosts.Debian())
	require.NoError(t, n.RemoveAll(state))
	_, err := SoundKept(n, state)
	require.ErrorContains(t, err, "state is lost")
	for _, w := range witnesses {
		require.NoError(t, n.Remove(w))
	}
	kept, err := SoundKept(n, state)
	require.NoError(t, err, "a node that never kept anything")
	require.Empty(t, kept)
}

func TestBootLoadsWhatCanBeReadBesideADamagedRecord(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Debian())
	apply(t, n, mustPersist(t, f, dummy(t, n, "other", kernelA)))
	require.NoError(t, n.WriteFile(keptPath(state, "intel-e100"), nil, 0o644))
	r, err := HookBoot(context.Background(), n, f.Layout())
	require.ErrorContains(t, err, "intel-e100 is damaged")
	require.Len(t, r.Drivers, 1)
	require.Equal(t, "loaded", r.Drivers[0].State, r.Drivers[0].Detail)
}

func TestMessageOfTheDayGoesWhenTheDriverIsInUseAgain(t *testing.T) {
	n, f, state, _ := gated(t, hosts.Debian())
	boot := BootResult{Kernel: kernelA, Drivers: []BootDriver{{Name: "gone", State: "no-build", Detail: "no build"}, {Name: "intel-e100", State: "no-build", Detail: "no build"}}}
	require.NoError(t, writeRecord(n, bootPath(state), boot))
	writeMotd(n, state)
	motd, err := n.ReadString(motdPath)
	require.NoError(t, err)
	require.Contains(t, motd, "driver intel-e100 is not in use")
	require.NotContains(t, motd, "driver gone", "it is kept no more")
	for _, m := range []string{"mii", "e100"} {
		require.NoError(t, n.WriteFile("/sys/module/"+m+"/initstate", []byte("live\n"), 0o644))
	}
	apply(t, n, mustPersist(t, f, e100(t, n, kernelA, kernelB)))
	require.False(t, n.Exists(motdPath), "persisting looked again")
}
