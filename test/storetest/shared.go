package storetest

import (
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testSharedValues: the first value of a name stays, whoever stores another one.
func testSharedValues(t *testing.T, s store.Store) {
	if _, err := s.SharedValue(t.Context(), "key"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("none: %v", err)
	}
	values := []string{"one", "two", "three", "four"}
	got := make([]string, len(values))
	var all sync.WaitGroup
	for i, v := range values {
		all.Go(func() {
			b, err := s.ShareValue(t.Context(), "key", []byte(v))
			if err != nil {
				t.Error(err)
			}
			got[i] = string(b)
		})
	}
	all.Wait()
	for _, g := range got {
		if g != got[0] || !strings.Contains("one two three four", g) || g == "" {
			t.Errorf("nodes have %q", got)
		}
	}
	if b, err := s.SharedValue(t.Context(), "key"); err != nil || string(b) != got[0] {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := s.ShareValue(t.Context(), "other", []byte("x")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	for _, bad := range [][2]string{{"", "x"}, {"y", ""}} {
		if _, err := s.ShareValue(t.Context(), bad[0], []byte(bad[1])); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
