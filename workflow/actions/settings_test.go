package actions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/catalog/image"
	"fitout/hostops"
)

// Every limit that an error names can be set for a node, and a mistake in the
// file is not passed over.
func TestLimitsAreSetInTheSettingsFile(t *testing.T) {
	n := hostops.At(t.TempDir(), nil)
	opts, err := Options(n, nil, false)
	require.NoError(t, err)
	require.Zero(t, opts.Limits)

	const start = "apiVersion: fitout/v1\nkind: Config\nimages:\n  limits: "
	require.NoError(t, n.WriteFile(SettingsFile, []byte(start+"{entries: 1, files: 2, bytes: 3, name: 4, ratio: 5, window: 6, manifest: 7, members: 8, depth: 9, wait: 10m, stall: 20s}\n"), 0o644))
	opts, err = Options(n, nil, false)
	require.NoError(t, err)
	require.Equal(t, image.Limits{Entries: 1, Files: 2, Bytes: 3, Name: 4, Ratio: 5, Window: 6, Manifest: 7, Members: 8, Depth: 9, Wait: 10 * time.Minute, Stall: 20 * time.Second}, opts.Limits)

	require.NoError(t, n.WriteFile(SettingsFile, []byte(start+"{}\n  authorities: [/etc/ssl/site.pem]\n"), 0o644))
	opts, err = Options(n, nil, false)
	require.NoError(t, err)
	require.Equal(t, []string{"/etc/ssl/site.pem"}, opts.CAFiles)

	// One file for all: runs and images beside each other.
	require.NoError(t, n.WriteFile(SettingsFile, []byte(start+"{entries: 1}\nruns: {keep: 7}\n"), 0o644))
	set, err := ReadSettings(n)
	require.NoError(t, err)
	require.Equal(t, 7, set.Runs.Keep)
	require.EqualValues(t, 2<<30, set.Store.Bytes(), "what the file does not say keeps its default")
	require.Equal(t, 20*time.Second, set.Gate.Wait())
	require.Equal(t, int64(1), set.Images.Limits.Entries)

	require.NoError(t, n.WriteFile(SettingsFile, []byte(start+"{}\nstore: {limit: 500MiB}\ngate: {fetch: 0s}\n"), 0o644))
	set, err = ReadSettings(n)
	require.NoError(t, err)
	require.EqualValues(t, 500<<20, set.Store.Bytes())
	require.Zero(t, set.Gate.Wait())

	for text, says := range map[string]string{
		start + "{windw: 1}\n":                      "window",
		start + "{}\n  authorities: [site.pem]\n":   "images.authorities are files by their absolute path",
		start + "{window: 0}\n":                     "images.limits.window must be a number above 0",
		start + "{window: big}\n":                   "window",
		start + "{wait: soon}\n":                    "images.limits.wait must be a duration",
		start + "{stall: 0s}\n":                     "images.limits.stall must be a duration",
		start + "{}\nruns: {keep: 0}\n":             "runs.keep",
		start + "{}\nstore: {limit: 5}\n":           "store.limit",
		start + "{}\nstore: {limit: 5GB}\n":         "store.limit must be a size like 2GiB",
		start + "{}\nstore: {limit: -5GiB}\n":       "store.limit must be a size like 2GiB",
		start + "{}\nstore: {limit: 99999999TiB}\n": "store.limit must be a size like 2GiB",
		start + "{}\ngate: {fetch: never}\n":        "gate.fetch must be a duration like 20s",
		start + "{}\ngate: {fetch: -1s}\n":          "gate.fetch must be a duration like 20s",
		"kind: Other\n":                             "this is no fitout settings file",
		"apiVersion: fitout/v1\n: ":                 SettingsFile,
	} {
		require.NoError(t, n.WriteFile(SettingsFile, []byte(text), 0o644))
		_, err = Options(n, nil, false)
		require.ErrorContains(t, err, says, text)
	}
}
