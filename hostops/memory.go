package hostops

import (
	"os"
	"runtime/debug"
)

// memoryLimit is from where on Go collects garbage more often than by default,
// which is whenever as much lies about as is in use. Reading all modules of a
// packed kernel takes 78 MiB by default and 58 with this, in the same processor
// time. It is no bound: what is in use may be more.
const memoryLimit = 40 << 20

// BoundMemory keeps this process small. $GOMEMLIMIT overrules it.
func BoundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
