// Package hostops is the one seam between fitout and the node it runs on.
//
// A [Node] holds everything that touches the machine: its files (below one
// root), its kernel's module calls, its commands and its clock. It is passed
// down by value of pointer, never kept in a package variable, so that a test,
// a demo or a bug report gives it another root.
//
// The sub-packages answer one question each: pci (which devices are there),
// kmod (what does this kernel accept, load it), host (how does this OS keep a
// driver and gate an upgrade), node (may we touch it now). They report facts;
// package workflow turns facts into findings.
package hostops

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// Node is the machine that is being fitted out.
type Node struct {
	// Root is "/" on the live node, or the directory of a recorded or built
	// one. Paths given to Node's methods are absolute paths on the node.
	Root string
	// Kernel makes module calls. It is simulated when Root is not "/".
	Kernel Kernel
	// Exec runs commands on the node. It is simulated when Root is not "/".
	Exec Runner
	// Now is the clock.
	Now func() time.Time
	// Log receives debug lines; never nil.
	Log *slog.Logger
}

// Kernel is the part of the kernel's interface that is made of system calls.
type Kernel interface {
	// Release is uname -r, opaque text.
	Release() string
	// Machine is uname -m ("x86_64", "aarch64").
	Machine() string
	// LoadModule hands an uncompressed module file to the kernel
	// (finit_module, flags 0) with its parameters as one string, as
	// init_module(2) takes them ("" for none). Errors are unix.Errno.
	LoadModule(file *os.File, params string) error
	// UnloadModule asks for removal without waiting (delete_module with
	// O_NONBLOCK). Errors are unix.Errno.
	UnloadModule(name string) error
}

// Runner runs commands.
type Runner interface {
	// Run runs argv and returns its combined output, bounded to 1 MiB. A
	// non-zero exit is an *exec.ExitError wrapped with the command line.
	Run(ctx context.Context, argv ...string) ([]byte, error)
	// Look says whether a command of that name can be run.
	Look(name string) bool
}

// Simulated says that kernel calls and commands have no effect outside Root.
func (n *Node) Simulated() bool { return n.Root != "/" }
