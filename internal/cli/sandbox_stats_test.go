package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// using plays a daemon with a parent, a child and a sandbox of which little is known.
func using(t *testing.T) (connect app.Connect, parent, child, other api.SandboxID) {
	t.Helper()
	parent, child, other = api.NewSandboxID(), api.NewSandboxID(), api.NewSandboxID()
	stats := map[api.SandboxID]api.Stats{
		parent: {CPUTimeMS: 2000, MemoryBytes: 300 << 20, MemoryOwnBytes: 100 << 20, MemoryPeakBytes: 301 << 20, Processes: 3, DiskUsedBytes: 1 << 20, DiskTotalBytes: 2 << 20},
		child: {MemoryBytes: 20 << 20, MemoryOwnBytes: 20 << 20, MemorySharedBytes: 90 << 20, SharedMemory: []api.SharedMemory{
			{Name: "x", Bytes: 80 << 20, TotalBytes: 100 << 20, Holder: parent}, {Name: "y", Bytes: 10 << 20, TotalBytes: 10 << 20, File: true}}},
		other: {CPUTimeMS: -1, MemoryBytes: -1, MemoryOwnBytes: -1, MemorySharedBytes: -1, Processes: -1, DiskUsedBytes: -1, DiskTotalBytes: -1},
	}
	return serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, of, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/sandboxes/"), "/")
		st, ok := stats[api.SandboxID(id)]
		switch {
		case !ok:
			http.NotFound(w, r)
		case of == "stats":
			_ = json.NewEncoder(w).Encode(st)
		default:
			_ = json.NewEncoder(w).Encode(api.Sandbox{ID: api.SandboxID(id), State: api.SandboxRunning})
		}
	})), parent, child, other
}

func TestSandboxStats(t *testing.T) {
	connect, parent, child, other := using(t)
	code, stdout, stderr := run(t, connect, "", nil, "sandbox", "stats", string(parent))
	for _, want := range []string{"memory             100 MiB\n", "shared memory      0 B\n", "charged memory     300 MiB\n", "peak memory        301 MiB\n", "disk               1 MiB of 2 MiB\n"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%d, no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, stderr = run(t, connect, "", nil, "sandbox", "stats", string(parent), string(child), string(other), string(child))
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) != 6 {
		t.Fatalf("%d\n%s%s", code, stdout, stderr)
	}
	for i, want := range []string{
		"ID PROCESSOR TIME MEMORY SHARED CHARGED PROCESSES",
		string(parent) + " 2s 100 MiB 0 B 300 MiB 3",
		string(child) + " 0s 20 MiB 90 MiB 20 MiB 0",
		string(other) + " unknown here unknown here unknown here unknown here unknown here",
		"together 120 MiB 10 MiB",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	var all struct {
		Sandboxes map[api.SandboxID]api.Stats
		Memory    api.MemoryUse
	}
	_, stdout, _ = run(t, connect, "", nil, "sandbox", "stats", "--json", string(parent), string(child))
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all.Sandboxes) != 2 || all.Memory != (api.MemoryUse{OwnBytes: 120 << 20, SharedBytes: 10 << 20}) {
		t.Errorf("%v, %s", err, stdout)
	}
	var one api.Stats
	_, stdout, _ = run(t, connect, "", nil, "sandbox", "stats", "--json", string(child))
	if err := json.Unmarshal([]byte(stdout), &one); err != nil || one.MemorySharedBytes != 90<<20 || len(one.SharedMemory) != 2 {
		t.Errorf("%v, %s", err, stdout)
	}
	if code, _, _ := run(t, connect, "", nil, "sandbox", "stats"); code != 2 {
		t.Errorf("without a sandbox: %d", code)
	}
}
