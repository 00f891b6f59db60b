package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// storeOf fetches an image of a module, firmware and a licence.
func storeOf(t *testing.T, dir string) (ref string) {
	ref = "oci:" + asLayout(t, imageOf(t, layerOf(t, ent{name: hostTree + "/e100.ko", data: realModule(t, release+"/e100.ko")},
		ent{name: "firmware/e100/d101m_ucode.bin", data: "firmware"}, ent{name: "licenses/LICENSE", data: "terms"})))
	img, err := openAt(t, ref, Options{})
	require.NoError(t, err)
	_, err = img.Fetch(t.Context(), dir, Want{Licences: true})
	require.NoError(t, err)
	return ref
}

// What a disk, or somebody, has changed in the store is found before anything is
// read from it, with a cure; the next fetch brings it again.
func TestStoreThatADiskHasSpoiltIsNotRead(t *testing.T) {
	flip := func(t *testing.T, file string, at int) {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		raw[(at+len(raw))%len(raw)] ^= 4
		require.NoError(t, os.WriteFile(file, raw, 0o644))
	}
	module := filepath.Join(hostTree, "e100.ko")
	for name, tc := range map[string]struct {
		file string
		harm func(t *testing.T, file string)
	}{
		"a bit of a module": {module, func(t *testing.T, f string) { flip(t, f, -2000) }},
		"a module cut":      {module, func(t *testing.T, f string) { require.NoError(t, os.Truncate(f, 4000)) }},
		"a module gone":     {module, func(t *testing.T, f string) { require.NoError(t, os.Remove(f)) }},
		"a link for a module": {module, func(t *testing.T, f string) {
			require.NoError(t, os.Rename(f, f+"x"))
			require.NoError(t, os.Symlink(f+"x", f))
		}},
		"a bit of firmware":    {"firmware/e100/d101m_ucode.bin", func(t *testing.T, f string) { flip(t, f, 0) }},
		"firmware emptied":     {"firmware/e100/d101m_ucode.bin", func(t *testing.T, f string) { require.NoError(t, os.Truncate(f, 0)) }},
		"a bit of the licence": {"licenses/LICENSE", func(t *testing.T, f string) { flip(t, f, 0) }},
		"the inventory cut":    {inventoryName, func(t *testing.T, f string) { require.NoError(t, os.Truncate(f, 300)) }},
		"a digest in it": {inventoryName, func(t *testing.T, f string) {
			raw, err := os.ReadFile(f)
			require.NoError(t, err)
			require.Contains(t, string(raw), hostTree)
			require.NoError(t, os.WriteFile(f, []byte(strings.Replace(string(raw), release, "6.1.0-58-amd64", 1)), 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			ref := storeOf(t, dir)
			whole, err := ReadInventory(dir)
			require.NoError(t, err)
			tc.harm(t, filepath.Join(dir, tc.file))
			_, err = ReadInventory(dir)
			require.Equal(t, StoreDamaged, CodeOf(err), "%v", err)
			require.ErrorContains(t, err, filepath.Base(tc.file))
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Hint, "fetch the image again")
			img, err := openAt(t, ref, Options{})
			require.NoError(t, err)
			again, err := img.Fetch(t.Context(), dir, Want{Licences: true})
			require.NoError(t, err)
			require.Equal(t, whole.Kernels, again.Kernels)
			_, err = ReadInventory(dir)
			require.NoError(t, err)
		})
	}
}

// partOf makes what a fetch that was broken off leaves, last written long ago.
func partOf(t *testing.T, dir string, ago time.Duration) string {
	require.NoError(t, prepareDir(dir+partName))
	write(t, dir+partName, resumptionName, "{}")
	age(t, ago, filepath.Join(dir+partName, resumptionName), dir+partName)
	return dir + partName
}

func age(t *testing.T, ago time.Duration, paths ...string) {
	at := time.Now().Add(-ago)
	for _, p := range paths {
		require.NoError(t, os.Chtimes(p, at, at))
	}
}

// What a fetch that nobody took up has left goes with the next fetch into the
// same store; what a running one works in, or a fresh one, stays.
func TestOldRemainsOfFetchesAreRemoved(t *testing.T) {
	store := t.TempDir()
	old := partOf(t, filepath.Join(store, "old"), 8*24*time.Hour)
	fresh := partOf(t, filepath.Join(store, "fresh"), 6*24*time.Hour)
	running := partOf(t, filepath.Join(store, "running"), 8*24*time.Hour)
	foreign := filepath.Join(store, "foreign"+partName)
	write(t, foreign, "precious", "x")
	age(t, 8*24*time.Hour, foreign)
	held, err := lockDir(running)
	require.NoError(t, err)
	require.NotNil(t, held)
	require.True(t, Fetching(running))
	require.False(t, Fetching(fresh))
	storeOf(t, filepath.Join(store, "s"))
	require.NoDirExists(t, old)
	for _, dir := range []string{fresh, running, foreign} {
		require.DirExists(t, dir)
	}
	require.NoError(t, held.Close())
	storeOf(t, filepath.Join(store, "s2"))
	require.NoDirExists(t, running)
}

// Two processes that want the same image do not write into one directory: the
// second waits, and then finds what the first brought.
func TestSecondFetchOfAnImageWaitsForTheFirst(t *testing.T) {
	ref := "oci:" + asLayout(t, oneModule(t))
	dir := filepath.Join(t.TempDir(), "s")
	require.NoError(t, os.Mkdir(dir+partName, 0o700))
	held, err := lockDir(dir + partName)
	require.NoError(t, err)
	waits := make(chan string, 1)
	img, err := openAt(t, ref, Options{Log: func(s string) { waits <- s }})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := img.Fetch(context.Background(), dir, Want{})
		done <- err
	}()
	storeOf(t, filepath.Join(t.TempDir(), "other")) // time in which it waits
	select {
	case err := <-done:
		t.Fatalf("the second fetch did not wait: %v", err)
	case said := <-waits:
		require.Contains(t, said, "another process is fetching this image")
	}
	first := *img
	inv, _, err := first.fetchPart(t.Context(), dir+partName, Want{})
	require.NoError(t, err)
	require.NoError(t, replaceDir(dir+partName, dir))
	require.NoError(t, held.Close())
	require.NoError(t, <-done)
	again, err := ReadInventory(dir)
	require.NoError(t, err)
	require.Equal(t, inv.Kernels, again.Kernels)
	require.NoDirExists(t, dir+partName)
}
