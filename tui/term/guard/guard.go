// Package guard keeps the program from asking the terminal a question before
// main starts.
//
// Bubble Tea v1 calls lipgloss.HasDarkBackground from an init function, which
// sends OSC 11 and CSI 6n and waits up to five seconds for an answer; a serial
// line gives none, and a late answer would arrive as key presses. The question
// is not asked when the answer is already set. Go initialises packages in the
// order of their import paths as soon as their own imports are ready, so this
// package, whose path sorts before github.com/charmbracelet/bubbletea and which
// imports lipgloss alone, is always first. Import it for its effect in every
// package that imports Bubble Tea.
package guard

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
