package image

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// verified are the inventories that this process has read, by directory: many
// ask for the same one, and each would read every byte of the image again.
var verified sync.Map // string → verifiedDir

// verifiedDir is an inventory whose files were compared with their digests, and
// what the file system said of them then.
type verifiedDir struct {
	inv    *Inventory
	states []fileState
}

// fileState tells a file from one that was written since, or put in its place.
type fileState struct {
	dev, ino   uint64
	size       int64
	mtim, ctim unix.Timespec
}

// tick is longer than any kernel's clock tick: of a file that was changed less
// than that ago, the next change may leave the same time.
const tick = 20 * time.Millisecond

// filesOf are the states of an inventory's files in dir; settled is false when
// one of them was changed just now.
func filesOf(dir string, inv *Inventory) (states []fileState, settled bool) {
	settled = true
	for _, p := range append(sortedKeys(inv.sums), inventoryName) {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, filepath.FromSlash(p)), &st) != nil {
			return nil, false
		}
		states = append(states, fileState{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim})
		settled = settled && time.Since(time.Unix(st.Ctim.Unix())) > tick
	}
	return states, settled
}

// readBefore gives what this process has verified in dir, nil when it has not, or
// when a file was touched since.
func readBefore(dir string) *Inventory {
	before, ok := verified.Load(dir)
	if !ok {
		return nil
	}
	v := before.(verifiedDir)
	if now, _ := filesOf(dir, v.inv); !slices.Equal(now, v.states) {
		verified.Delete(dir)
		return nil
	}
	named := *v.inv
	return &named
}
