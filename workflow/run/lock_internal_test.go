package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

// A follower takes an owner that it cannot read for a run that is gone.
func TestLockNamesItsHolderAlsoWhileItIsRewritten(t *testing.T) {
	n := &hostops.Node{Root: t.TempDir()}
	held, err := acquire(n, Owner{Run: "2026-1130-01"})
	require.NoError(t, err)
	defer held.release()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3000 {
			held.hung("load")
			held.hung("")
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
			require.Equal(t, "2026-1130-01", Current(n))
		}
	}
}
