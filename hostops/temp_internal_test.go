package hostops

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FAT gives every file to one user, whoever makes it.
func TestFileJustMadeIsWrittenToWhoeverItsOwnerIs(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Chown(12345, 12345), "tests run as root")
	usable, err := claim(f, f.Name(), true)
	require.NoError(t, err)
	require.True(t, usable)
	usable, err = claim(f, f.Name(), false)
	require.NoError(t, err)
	require.False(t, usable)
	require.NoFileExists(t, f.Name())
}

func TestWriteEndsWhereTheDirectoryIsGone(t *testing.T) {
	_, err := openTemp(filepath.Join(t.TempDir(), "gone", "file"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
