package kmod

// Tables are a kernel's module indexes.
type Tables struct{}
