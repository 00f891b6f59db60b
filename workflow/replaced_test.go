package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog"
	"fitout/testdata/nodes"
	"fitout/workflow/answers"
)

// A module that is kept from loading for its device comes in all the same where
// another one wants it: status looks, and says who that is.
func TestReplacedModuleThatIsLoadedAllTheSameIsDrift(t *testing.T) {
	e := engineOn(t)
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "new-e100", Modules: []string{"e100"}, Replaces: []string{"eepro100"},
		Images: []catalog.Mapping{{Kernel: ".*", Reference: driverImage(t, nodes.Release, nodes.Release, "e100")}}}}}
	tables := "/lib/modules/" + nodes.Release
	dep, err := e.Node.ReadFile(tables + "/modules.dep")
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile(tables+"/modules.dep", append(dep, "kernel/drivers/net/bonding.ko:\n"...), 0o644))
	require.NoError(t, e.Node.WriteFile(tables+"/modules.softdep", []byte("softdep bonding pre: eepro100\n"), 0o644))
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "new-e100", When: answers.LoadNowPersist}}
	a.AcceptRisks = []string{"unsure-verdict"}
	carryOut(t, e, a)
	st, err := e.Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, st.Drivers[0].Drift)

	mods, err := e.Node.ReadFile("/proc/modules")
	require.NoError(t, err)
	require.NoError(t, e.Node.WriteFile("/proc/modules", append(mods, "eepro100 28672 0 - Live 0x0000000000000000\n"...), 0o444))
	st, err = e.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"module eepro100, which it replaces, is loaded all the same; brought in by bonding (softdep pre)"}, st.Drivers[0].Drift)
	require.True(t, st.Drifted())
}

// What a catalog entry says of parameters is in the plan, loaded and kept.
func TestParametersOfTheEntryAreShownLoadedAndKept(t *testing.T) {
	e := engineOn(t)
	e.Catalog = &catalog.Catalog{Drivers: []catalog.Driver{{Name: "new-e100", Modules: []string{"e100"}, Parameters: map[string][]string{"e100": {"debug=3"}},
		Images: []catalog.Mapping{{Kernel: ".*", Reference: driverImage(t, nodes.Release, nodes.Release, "e100")}}}}}
	a := answers.Default()
	a.Devices = []answers.Rule{{Match: answers.Match{ID: "8086:1229"}, Driver: "new-e100", When: answers.LoadNowPersist}}
	a.AcceptRisks = []string{"unsure-verdict"}
	p, err := e.Plan(t.Context(), a, nil)
	require.NoError(t, err)
	require.Regexp(t, `finit_module\(.*/e100\.ko, "debug=3", 0\)`, strings.Join(p.Text(e.Node), "\n"))
	code, sum := execute(t, e, p)
	require.Equal(t, 0, code, sum.Message)
	value, err := e.Node.ReadString("/sys/module/e100/parameters/debug")
	require.NoError(t, err)
	require.Equal(t, "3", value)
	conf, err := e.Node.ReadString("/etc/modprobe.d/fitout-new-e100.conf")
	require.NoError(t, err)
	require.Contains(t, conf, "\noptions e100 debug=3")
}
