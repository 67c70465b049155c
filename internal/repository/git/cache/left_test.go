package cache

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestRemoveLeft removes a directory in which somebody still makes files.
func TestRemoveLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "left")
	sub := filepath.Join(dir, "objects")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range 2000 { // until the directory is gone
			if os.WriteFile(filepath.Join(sub, "new"+strconv.Itoa(i)), nil, 0o600) != nil {
				return
			}
		}
	}()
	if err := removeLeft(t.Context(), dir); err != nil {
		t.Error(err)
	}
	<-over
	if err := removeLeft(t.Context(), dir); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}
