//go:build linux

package guest

import (
	"regexp"
	"testing"
)

// Ids are of their kind's form, follow from the seed alone, and tell nothing of each
// other.
func TestIDsOfASelf(t *testing.T) {
	a, b := []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if id := bootID(a); !uuid.MatchString(id) || id != bootID(a) || id == bootID(b) {
		t.Errorf("boot ids %s and %s", id, bootID(b))
	}
	if id := machineID(a); len(id) != 32 || id == machineID(b) || id[:8] == bootID(a)[:8] {
		t.Errorf("machine ids %s and %s, boot id %s", id, machineID(b), bootID(a))
	}
}
