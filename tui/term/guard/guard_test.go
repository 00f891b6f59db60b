package guard

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuardIsInitialisedBeforeBubbleTea holds the two conditions for it: the
// import path sorts first, and nothing but lipgloss is waited for.
func TestGuardIsInitialisedBeforeBubbleTea(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "guard.go", nil, parser.ImportsOnly)
	require.NoError(t, err)
	require.Len(t, f.Imports, 1)
	require.Equal(t, `"github.com/charmbracelet/lipgloss"`, f.Imports[0].Path.Value)
	require.Less(t, "fitout/tui/term/guard", "github.com/charmbracelet/bubbletea")
}
