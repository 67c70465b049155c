//go:build linux

package procfs

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 2 3 4 5")
	f.Add("1 (")
	f.Fuzz(func(t *testing.T, s string) { parseStat(s) })
}
