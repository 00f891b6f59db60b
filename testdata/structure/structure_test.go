// Package structure_test holds the repository to its own rules: which way
// imports point, what lies at the top, and which test covers which fault.
package structure_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository, seen from this package.
const root = "../.."

// allowed says which rooms a room may import, besides itself: the arrows
// cmd → tui → workflow → catalog, hostops → catalog/module. The assets are
// bytes for everyone.
var allowed = map[string][]string{
	"cmd":            {"tui", "workflow", "catalog", "catalog/module", "hostops", "assets"},
	"tui":            {"workflow", "catalog", "catalog/module", "hostops", "assets"},
	"workflow":       {"catalog", "catalog/module", "hostops", "assets"},
	"catalog":        {"catalog/module", "assets"},
	"hostops":        {"catalog/module", "assets"},
	"catalog/module": {},
	"assets":         {},
}

// room is the room that a package belongs to ("fitout/hostops/pci" → "hostops").
func room(pkg string) string {
	path := strings.TrimPrefix(pkg, "fitout/")
	if path == "catalog/module" || strings.HasPrefix(path, "catalog/module/") {
		return "catalog/module"
	}
	first, _, _ := strings.Cut(path, "/")
	return first
}

// wrongArrow says why a package may not import another; "" when it may.
func wrongArrow(from, to string, test bool) string {
	if !strings.HasPrefix(to, "fitout/") || room(from) == room(to) {
		return ""
	}
	if room(from) == "testdata" || test && room(to) == "testdata" {
		return ""
	}
	if slices.Contains(allowed[room(from)], room(to)) {
		return ""
	}
	return from + " imports " + to + ": imports point cmd → tui → workflow → catalog, hostops → catalog/module, and never back"
}

func TestImportsPointOneWay(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		require.NoError(t, err)
		from := "fitout/" + filepath.ToSlash(filepath.Dir(file))
		seen[room(from)] = true
		for _, imp := range f.Imports {
			to, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			if why := wrongArrow(from, to, strings.HasSuffix(file, "_test.go")); why != "" {
				t.Errorf("%s: %s", file, why)
			}
		}
	}
	for name := range allowed {
		require.True(t, seen[name], "there is no Go file in %s: does this test look at the right tree?", name)
	}
}

func TestWrongArrowsAreSeen(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{"fitout/cmd/fitout", "fitout/workflow/plan", false, true},
		{"fitout/tui/pages", "fitout/workflow", false, true},
		{"fitout/hostops/kmod", "fitout/catalog/module", false, true},
		{"fitout/hostops/kmod", "fitout/testdata/vm/debian", true, true},
		{"fitout/hostops/kmod", "fitout/testdata/vm/debian", false, false},
		{"fitout/hostops/kmod", "fitout/catalog", false, false},
		{"fitout/hostops/kmod", "fitout/catalog/image", true, false},
		{"fitout/catalog/image", "fitout/hostops", false, false},
		{"fitout/catalog/module", "fitout/hostops", false, false},
		{"fitout/workflow", "fitout/tui", false, false},
		{"fitout/tui", "fitout/cmd/fitout", false, false},
	} {
		require.Equal(t, c.ok, wrongArrow(c.from, c.to, c.test) == "", "%s → %s", c.from, c.to)
	}
}

// topLevel is all that lies at the top, besides dotfiles and what the build
// leaves (which git ignores).
var topLevel = []string{
	"ARCHITECTURE.md", "LICENSE", "Makefile", "README.md", "assets", "catalog", "cmd", "go.mod", "go.sum",
	"hostops", "testdata", "tui", "workflow",
}

func TestTopLevelHoldsWhatTheArchitectureNames(t *testing.T) {
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "build" {
			require.Contains(t, topLevel, name)
		}
	}
}

// goFiles lists the repository's Go files, relative to its root.
func goFiles(t *testing.T) []string {
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == ".git" || rel == "build"):
			return filepath.SkipDir
		case strings.HasSuffix(rel, ".go"):
			files = append(files, rel)
		}
		return nil
	})
	require.NoError(t, err)
	return files
}
