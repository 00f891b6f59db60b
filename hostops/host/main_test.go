package host

import (
	"context"
	"fmt"
	"os"
	"testing"

	"fitout/hostops"
)

// TestMain lets the test program play one more part: the program that hooks
// call ("hook STAGE …").
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hook" {
		if err := Hook(context.Background(), hostops.Live(nil), os.Args[2:], nil); err != nil {
			fmt.Fprintln(os.Stderr, "fitout:", err)
			os.Exit(6)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
