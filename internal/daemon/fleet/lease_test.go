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

// TestJudges: a node that could not reach the database says for the time of a lease nothing about others.
func TestJudges(t *testing.T) {
	for _, c := range []struct {
		began []time.Duration // of renewals, before now
		want  bool
	}{
		{[]time.Duration{Lease + 1}, false}, // the last one is too long ago
		{[]time.Duration{12 * time.Second, 9 * time.Second, 6 * time.Second, 3 * time.Second}, true},
		{[]time.Duration{20 * time.Second, 9 * time.Second, 6 * time.Second, 3 * time.Second}, false},  // it was away until 9 seconds ago
		{[]time.Duration{20 * time.Second, 11 * time.Second, 6 * time.Second, 3 * time.Second}, true},  // it was away until 11 seconds ago
		{[]time.Duration{14 * time.Second, 11 * time.Second, 8 * time.Second, 1 * time.Second}, false}, // the last gap is too long
		{nil, false}, // it has just begun
	} {
		f := &Fleet{begun: time.Now().Add(-time.Hour)}
		if c.began == nil {
			f.begun = time.Now()
		}
		for _, ago := range c.began {
			f.renewed(time.Hour - ago)
		}
		if got := f.Judges(); got != c.want {
			t.Errorf("renewals %v ago: %v", c.began, got)
		}
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
