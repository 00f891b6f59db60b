package structure_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testdata/cases.tsv has one line for each fault from the field in
// testdata/case-ids.txt: its id, the tests that hold it (comma-separated, or
// "-"), and a note. A line without a test says in its note why there is none.
func TestEveryFaultHasItsTestOrAReason(t *testing.T) {
	known := map[string]bool{}
	ids, err := os.ReadFile(filepath.Join(root, "testdata/case-ids.txt"))
	require.NoError(t, err)
	for _, id := range strings.Fields(string(ids)) {
		require.False(t, known[id], "%s is listed twice", id)
		known[id] = true
	}
	require.NotEmpty(t, known)

	tests := testNames(t)
	table, err := os.ReadFile(filepath.Join(root, "testdata/cases.tsv"))
	require.NoError(t, err)
	covered := map[string]bool{}
	for n, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		require.GreaterOrEqual(t, len(fields), 2, "cases.tsv:%d: want id, tests, note, separated by tabs", n+1)
		id := fields[0]
		if !known[id] {
			t.Errorf("cases.tsv:%d: no fault has the id %q", n+1, id)
		}
		if covered[id] {
			t.Errorf("cases.tsv:%d: %s is there twice", n+1, id)
		}
		covered[id] = true
		if fields[1] == "-" {
			if len(fields) < 3 || strings.TrimSpace(fields[2]) == "" {
				t.Errorf("cases.tsv:%d: %s has no test and no reason", n+1, id)
			}
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), "/")
			if !tests[name] {
				t.Errorf("cases.tsv:%d: %s names the test %q, which does not exist", n+1, id, name)
			}
		}
	}
	for id := range known {
		if !covered[id] {
			t.Errorf("cases.tsv has no line for %s", id)
		}
	}
}

// testNames are the names of all test functions in the tree.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				for _, prefix := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
					if strings.HasPrefix(fn.Name.Name, prefix) {
						names[fn.Name.Name] = true
					}
				}
			}
		}
	}
	return names
}
