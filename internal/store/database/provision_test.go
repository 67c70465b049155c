package database

import (
	"strings"
	"testing"
)

// TestProvisionedIsIndexed asks SQLite how it finds the sandbox of a task: by the index,
// and neither through all sandboxes nor by sorting those of the task.
func TestProvisionedIsIndexed(t *testing.T) {
	db := newTest(t)
	plan := func(query string) string {
		t.Helper()
		rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, "t1", "a", true)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var all []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			all = append(all, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "; ")
	}
	indexed := func(p string) bool {
		return p == "SEARCH sandbox USING INDEX sandbox_provision (provision=? AND account=?)"
	}
	if p := plan(provisionedSQL); !indexed(p) {
		t.Error(p)
	}
	// The control: without the index's column it is another plan.
	if p := plan(strings.Replace(provisionedSQL, "provision =", "+provision =", 1)); indexed(p) {
		t.Errorf("it says so of everything: %s", p)
	}
}
