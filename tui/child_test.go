package tui

// runChild is the program that tests start on a pty.
func runChild(string) int { return 0 }
