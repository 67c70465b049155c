package fleet

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestHolds: a node that could not renew its lease does not serve, by its own clock.
func TestHolds(t *testing.T) {
	db := open(t)
	one := join(t, db, "one", "")
	join(t, db, "two", "")
	must(t, one.Holds())
	if _, err := one.all(t.Context(), true); err != nil || !one.Others() {
		t.Errorf("others: %t, %v", one.Others(), err)
	}
	late := &Fleet{cfg: one.cfg, begun: time.Now().Add(-Lease)} // it has renewed nothing since
	err := late.Holds()
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "node one has not reached the database for 10s") {
		t.Error(err)
	}
}
