package kmod

// Tables are a kernel's module indexes.
type Tables struct{}

// Symbols are a kernel's exports with versions.
type Symbols struct {
	Origin Origin
}
