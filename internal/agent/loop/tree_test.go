package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/internal/agent/loop"
)

func TestTree(t *testing.T) {
	var wide, flat []string
	for i := range 100 {
		wide = append(wide, fmt.Sprintf("src/part%03d/main.py", i))
		flat = append(flat, fmt.Sprintf("file%03d", i))
	}
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"none":    {nil, ""},
		"small":   {[]string{"a.go", "b/c.go", "b/d/e.go", "b/d/f.go", "g/h/i/j.go"}, "a.go\nb/c.go\nb/d/\ng/h/"},
		"wide":    {append([]string{"README"}, wide...), "README\nsrc/ (100 files)"},
		"flat":    {flat, strings.Join(flat[:60], "\n") + "\n[and 40 more]"},
		"at most": {flat[:60], strings.Join(flat[:60], "\n")},
	} {
		if got := loop.Tree(c.paths); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
