package cli

import (
	"fmt"
	"sync"
	"testing"

	"hortus.dev/internal/cli/contexts"
)

// TestContextsTogether adds and removes contexts from many commands at once: none loses
// what another did.
func TestContextsTogether(t *testing.T) {
	p := newHolder(t, `{"contexts":{}}`)
	const n = 24
	for i := range n / 2 {
		if code, _, stderr := p.run("context", "add", fmt.Sprint("old", i), "--host", "http://h"); code != 0 {
			t.Fatal(stderr)
		}
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			args := []string{"context", "add", fmt.Sprint("new", i), "--host", "http://h"}
			if i%2 == 0 {
				args = []string{"context", "rm", fmt.Sprint("old", i/2)}
			}
			if code, _, stderr := p.run(args...); code != 0 {
				t.Errorf("%q: exit code %d: %s", args, code, stderr)
			}
		})
	}
	all.Wait()
	got, err := contexts.Load(p.file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, ok := got.Contexts[fmt.Sprint("new", i)]; ok != (i%2 == 1) {
			t.Errorf("new%d is there: %v", i, ok)
		}
	}
	if len(got.Contexts) != n/2 {
		t.Errorf("%d contexts; want %d", len(got.Contexts), n/2)
	}
}
