package beneath

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// interrupted is a context that ends after some looks at it.
type interrupted struct {
	context.Context
	left int
}

func (c *interrupted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRemoveInterrupted: a removal that ended at any point can be done to its end later, for as long as it is tried.
func TestRemoveInterrupted(t *testing.T) {
	for looks := range 40 {
		dir := filepath.Join(t.TempDir(), "w")
		for i := range 12 {
			deep := filepath.Join(dir, "upper", fmt.Sprint("a", i), "b", fmt.Sprint("c", i%3), "d")
			if err := os.MkdirAll(deep, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(deep, "f"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for try := range 3 {
			if err := RemoveAll(&interrupted{t.Context(), looks}, dir); err != nil && err != context.Canceled {
				t.Fatalf("interrupted after %d looks, try %d: %v", looks, try, err)
			}
		}
		if err := RemoveAll(t.Context(), dir); err != nil {
			t.Fatalf("after %d looks: %v", looks, err)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("after %d looks it is there: %v", looks, err)
		}
	}
}
