package fleet

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// TestHolds: a node that could not renew its lease does not serve, by its own clock, until it renews.
func TestHolds(t *testing.T) {
	f := &Fleet{cfg: Config{Name: "one", Node: "n1"}, begun: time.Now().Add(-Lease)}
	if err := f.Holds(); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "node one has not reached the database for 10s") {
		t.Error(err)
	}
	f.held.Store(int64(Lease / 2))
	if err := f.Holds(); err != nil {
		t.Error(err)
	}
}

// TestOthers: this node and those that are silent are no others in service.
func TestOthers(t *testing.T) {
	f := &Fleet{cfg: Config{Node: "n1"}, nodes: []store.Node{{ID: "n1"}, {ID: "n2", Silence: Lease + 1}}}
	if f.Others() {
		t.Error("there is another node")
	}
	f.nodes[1].Silence = Lease
	if !f.Others() {
		t.Error("there is no other node")
	}
}
