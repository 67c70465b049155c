package e2b

import (
	"testing"
	"time"

	"hortus.dev/api"
)

// TestMemoryOfMetrics: what is used is a sandbox's own, and the rest of what it is charged for is cache.
func TestMemoryOfMetrics(t *testing.T) {
	for _, c := range []struct {
		name                 string
		charged, own, shared int64
		wantUsed, wantCache  int64
	}{
		{"some is cached", 100, 30, 500, 30, 70},
		{"nothing is cached", 100, 100, 0, 100, 0},
		{"its own is not known", 100, -1, -1, 100, 0},
		{"nothing is known", -1, -1, -1, 0, 0},
	} {
		got := metricsOf(api.Sandbox{}, []api.Stats{{At: time.Unix(1, 0), MemoryBytes: c.charged, MemoryOwnBytes: c.own, MemorySharedBytes: c.shared}})
		if len(got) != 1 || got[0].MemUsed != c.wantUsed || got[0].MemCache != c.wantCache {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
