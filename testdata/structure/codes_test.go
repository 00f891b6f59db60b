package structure_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fitout/workflow/finding"
)

// coded are the calls that put a stable code into an error or a finding.
var coded = regexp.MustCompile(`(?:stopf\(\w+, |finding\.New\(|Code: |Code = )"([a-z][a-z0-9-]+)"`)

// What a message is called can be looked up: fitout explain CODE.
func TestEveryCodeIsExplained(t *testing.T) {
	list, err := exec.Command("git", "-C", root, "ls-files", "catalog/*.go", "workflow/*.go", "cmd/*.go", "tui/*.go").Output()
	require.NoError(t, err)
	seen := 0
	for file := range strings.FieldsSeq(string(list)) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tui/internal/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, m := range coded.FindAllStringSubmatch(string(text), -1) {
			seen++
			_, ok := finding.Explain(finding.Code(m[1]))
			assert.True(t, ok, "%s uses the code %q, which explain does not know", file, m[1])
		}
	}
	require.Greater(t, seen, 100)
}
