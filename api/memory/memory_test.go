package memory

import (
	"testing"

	"hortus.dev/api"
)

func TestOf(t *testing.T) {
	held := func(name string, bytes, total int64, holder api.SandboxID) api.SharedMemory {
		return api.SharedMemory{Name: name, Bytes: bytes, TotalBytes: total, Holder: holder}
	}
	file := func(name string, bytes, total int64) api.SharedMemory {
		return api.SharedMemory{Name: name, Bytes: bytes, TotalBytes: total, File: true}
	}
	of := func(own int64, shared ...api.SharedMemory) api.Stats {
		return api.Stats{MemoryOwnBytes: own, SharedMemory: shared}
	}
	for _, c := range []struct {
		name  string
		stats map[api.SandboxID]api.Stats
		want  Use
	}{
		{"none", nil, Use{}},
		{"one that shares nothing", map[api.SandboxID]api.Stats{"a": of(5)}, Use{5, 0}},
		{"unknown", map[api.SandboxID]api.Stats{"a": of(-1), "b": of(5)}, Use{5, 0}},
		{"a parent and children", map[api.SandboxID]api.Stats{"p": of(100), "a": of(5, held("x", 90, 100, "p")), "b": of(7, held("x", 80, 100, "p"))}, Use{112, 0}},
		{"children of another's", map[api.SandboxID]api.Stats{"a": of(5, held("x", 90, 100, "p"))}, Use{5, 0}},
		{"children of one that has ended", map[api.SandboxID]api.Stats{"a": of(5, held("x", 90, 100, "")), "b": of(7, held("x", 10, 100, ""))}, Use{12, 100}},
		{"of a file, much", map[api.SandboxID]api.Stats{"a": of(5, file("x", 90, 100)), "b": of(7, file("x", 80, 100))}, Use{12, 100}},
		{"of a file, little", map[api.SandboxID]api.Stats{"a": of(5, file("x", 10, 100)), "b": of(7, file("x", 20, 100))}, Use{12, 30}},
		{"of two files", map[api.SandboxID]api.Stats{"a": of(5, file("x", 100, 100), file("y", 50, 50)), "b": of(7, file("x", 100, 100))}, Use{12, 150}},
	} {
		if got := Of(c.stats); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
