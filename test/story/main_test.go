package story

import (
	"flag"
	"fmt"
	"os"
	"testing"

	under "hortus.dev/test/binary"
	"hortus.dev/test/reaper"
)

// binary is the hortus under test, shared a directory that goes with the last story.
var binary, shared string

// TestMain runs the tests below a reaper, with a binary that is given or built.
func TestMain(m *testing.M) { os.Exit(reaper.Run(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-story")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared = dir
	if binary, err = under.In(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Stories wait for timers, terminals and each other's processes.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
