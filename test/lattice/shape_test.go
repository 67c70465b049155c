package lattice

import (
	"os"
	"path/filepath"
	"testing"
)

// maxDistricts is how many folders a newcomer finds directly under internal/.
const maxDistricts = 14

func TestDistricts(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "internal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > maxDistricts {
		t.Errorf("internal/ has %d folders, the maximum is %d: put a new package into its district (docs/architecture.md)", len(entries), maxDistricts)
	}
}
