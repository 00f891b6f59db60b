package term

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoUnitOpensAConsoleOnItsOwn looks through everything that is put on a
// node: the program runs where it was started, and nothing of it draws on a
// console by itself.
func TestNoUnitOpensAConsoleOnItsOwn(t *testing.T) {
	looked := 0
	for _, dir := range []string{"assets", "cmd", "hostops", "workflow"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pack") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			for _, key := range []string{"TTYPath=", "StandardInput=tty", "StandardOutput=tty"} {
				require.NotContains(t, string(data), key, path)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, looked, 20)
}
