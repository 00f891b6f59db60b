package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/hostops"
)

func TestLockThatNobodyHoldsIsSweptAway(t *testing.T) {
	n := &hostops.Node{Root: t.TempDir()}
	held, err := acquire(n, Owner{Run: "2026-1130-01"})
	require.NoError(t, err)
	SweepLock(n)
	require.Equal(t, "2026-1130-01", Current(n), "it is held")
	require.NoError(t, held.file.Close()) // as at a kill
	SweepLock(n)
	require.False(t, n.Exists("/run/fitout"))

	held, err = acquire(n, Owner{Run: "2026-1130-02"})
	require.NoError(t, err)
	held.hung("load")
	held.release()
	SweepLock(n)
	o, hangs := Hanging(n)
	require.True(t, hangs)
	require.Equal(t, "2026-1130-02", o.Run)
}

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
