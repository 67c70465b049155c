package admin

import (
	"bytes"
	"regexp"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
)

// TestShowNodes: the table says which node answers, what is gone or cannot be reached and why, and memory without a maximum if the node has none.
func TestShowNodes(t *testing.T) {
	var out, err bytes.Buffer
	a := &app.App{Flags: &app.Flags{}, Env: app.Env{Stdout: &out, Stderr: &err}}
	const gib = 1 << 30
	f := admin.Fleet{Initialized: true, Self: "na", Nodes: []admin.FleetNode{
		{ID: "na", Name: "a", Address: "a:7071", State: api.NodeReady, Capacity: api.NodeCapacity{MemoryPromised: gib, MemoryBudget: 8 * gib}},
		{ID: "nb", Name: "b", Address: "b:7071", State: api.NodeReady, Unreached: "no such host", Capacity: api.NodeCapacity{MemoryPromised: gib}},
		{ID: "nd", Name: "d", Address: "d:7071", State: api.NodeReady, Capacity: api.NodeCapacity{DiskFull: true}},
		{ID: "nc", Name: "c", State: api.NodeDraining, Gone: true, Capacity: api.NodeCapacity{Sandboxes: 3}},
	}}
	if err := showNodes(a, f); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`^a \* +a:7071 +ready +0 +0 +0 +1 GiB of 8 GiB `, `^b +b:7071 +ready, unreachable +0 +0 +0 +1 GiB  +0.0 of 0`, `^d +d:7071 +ready, disk full +0`, `^c +- +gone +- +- +- +- +- +0s ago`} {
		if !regexp.MustCompile("(?m)" + line).Match(out.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
	for _, line := range []string{`^b cannot be reached from here, at b:7071: no such host$`, `HORTUS_FLEET_ADDRESS`} {
		if !regexp.MustCompile("(?m)" + line).Match(err.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &err)
		}
	}
}
