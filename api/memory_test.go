package api

import (
	"testing"
)

func TestOf(t *testing.T) {
	held := func(name string, bytes, total int64, holder SandboxID) SharedMemory {
		return SharedMemory{Name: name, Bytes: bytes, TotalBytes: total, Holder: holder}
	}
	file := func(name string, bytes, total int64) SharedMemory {
		return SharedMemory{Name: name, Bytes: bytes, TotalBytes: total, File: true}
	}
	of := func(own int64, shared ...SharedMemory) Stats {
		return Stats{MemoryOwnBytes: own, SharedMemory: shared}
	}
	for _, c := range []struct {
		name  string
		stats map[SandboxID]Stats
		want  MemoryUse
	}{
		{"none", nil, MemoryUse{}},
		{"one that shares nothing", map[SandboxID]Stats{"a": of(5)}, MemoryUse{5, 0}},
		{"unknown", map[SandboxID]Stats{"a": of(-1), "b": of(5)}, MemoryUse{5, 0}},
		{"a parent and children", map[SandboxID]Stats{"p": of(100), "a": of(5, held("x", 90, 100, "p")), "b": of(7, held("x", 80, 100, "p"))}, MemoryUse{112, 0}},
		{"children of another's", map[SandboxID]Stats{"a": of(5, held("x", 90, 100, "p"))}, MemoryUse{5, 0}},
		{"children of one that has ended", map[SandboxID]Stats{"a": of(5, held("x", 90, 100, "")), "b": of(7, held("x", 10, 100, ""))}, MemoryUse{12, 100}},
		{"of a file, much", map[SandboxID]Stats{"a": of(5, file("x", 90, 100)), "b": of(7, file("x", 80, 100))}, MemoryUse{12, 100}},
		{"of a file, little", map[SandboxID]Stats{"a": of(5, file("x", 10, 100)), "b": of(7, file("x", 20, 100))}, MemoryUse{12, 30}},
		{"of two files", map[SandboxID]Stats{"a": of(5, file("x", 100, 100), file("y", 50, 50)), "b": of(7, file("x", 100, 100))}, MemoryUse{12, 150}},
	} {
		if got := MemoryOf(c.stats); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
