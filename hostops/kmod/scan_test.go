package kmod

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fitout/catalog/module"
)

func TestModulesThatNeedEachOtherEndTheSearch(t *testing.T) {
	needs := func(name string, deps ...string) *module.Info { return &module.Info{Name: name, Depends: deps} }
	byName := map[string]*module.Info{}
	for _, m := range []*module.Info{
		needs("drm", "sti_vtg"), needs("sti_vtg", "drm"), needs("self", "self"),
		needs("a", "b", "c"), needs("b", "d"), needs("c", "d"), needs("d"), needs("e", "missing"),
	} {
		byName[m.Name] = m
	}
	require.Equal(t, []string{"drm", "sti_vtg"}, closure(byName, "drm"))
	require.Equal(t, []string{"self"}, closure(byName, "self"))
	require.Equal(t, []string{"a", "c", "b", "d"}, closure(byName, "a"), "what two need comes last, once")
	require.Equal(t, []string{"e", "missing"}, closure(byName, "e"))
}
