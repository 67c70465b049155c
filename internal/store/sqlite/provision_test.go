package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"hortus.dev/api"
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

// TestProvisionedOfOldRows: what an earlier version stored is found too.
func TestProvisionedOfOldRows(t *testing.T) {
	old := withMigrations(t, nil).(fstest.MapFS)
	for name := range old {
		if name >= "00006" {
			delete(old, name)
		}
	}
	path := filepath.Join(t.TempDir(), "hortus.db")
	db, err := open(t.Context(), Config{Path: path}, old)
	if err != nil {
		t.Fatal(err)
	}
	s := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Account: "a", CreatedAt: time.Now(), Provision: &api.ProvisionRequest{TaskID: "t1"}}
	if err := db.InsertSandbox(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := openTest(t, path).ProvisionedOf(t.Context(), "a", "t1", false); err != nil || got.ID != s.ID {
		t.Errorf("%+v, %v", got, err)
	}
}
