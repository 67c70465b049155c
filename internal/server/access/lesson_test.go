package access_test

import (
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/store/database"
)

// TestLessonsOfAccounts: each caller has the lessons of the own account, and no way to another's.
func TestLessonsOfAccounts(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var all []api.Lesson
	for _, account := range []string{"a", "a", "a", "b"} {
		l, err := db.PutLesson(t.Context(), api.Lesson{
			ID: api.NewLessonID(), Account: account, Scope: "language:python", Fingerprint: api.NewLessonID(),
			Failure: "TypeError: x", Fix: "patch", Task: api.NewTaskID(), LearnedAt: time.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	guard := access.NewLessons(db)
	a := api.WithPrincipal(t.Context(), api.Principal{Account: "a", Role: api.RoleUser})
	b := api.WithPrincipal(t.Context(), api.Principal{Account: "b", Role: api.RoleUser, Key: api.NewKeyID()})
	operator := api.WithPrincipal(t.Context(), api.Operator())

	var ids []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		rows, next, err := guard.Page(a, "", api.PageRequest{Limit: 2, Cursor: cursor})
		if err != nil || pages > 2 {
			t.Fatal(err, pages)
		}
		for _, l := range rows {
			ids = append(ids, l.ID)
		}
		cursor = next
	}
	if len(ids) != 3 || ids[0] != all[2].ID || ids[2] != all[0].ID {
		t.Errorf("%v", ids)
	}
	for _, bad := range []api.PageRequest{{Limit: -1}, {Cursor: "x"}} {
		if _, _, err := guard.Page(a, "", bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, hidden := range []string{all[0].ID, all[0].ID[:8]} {
		if _, err := guard.Find(b, hidden); api.KindOf(err) != api.KindNotFound {
			t.Error("found in another account:", err)
		}
		if _, err := guard.Remove(b, hidden); api.KindOf(err) != api.KindNotFound {
			t.Error("removed in another account:", err)
		}
		if l, err := guard.Find(a, hidden); err != nil || l.ID != all[0].ID {
			t.Error(l, err)
		}
	}
	if rows, _, err := guard.Page(operator, "", api.PageRequest{}); err != nil || len(rows) != len(all) {
		t.Errorf("the operator has %d lessons, %v", len(rows), err)
	}
	if l, err := guard.Remove(operator, all[1].ID); err != nil || l.ID != all[1].ID {
		t.Error(l, err)
	}
	if l, err := guard.Remove(a, all[0].ID[:8]); err != nil || l.ID != all[0].ID {
		t.Error(l, err)
	}
	if _, err := guard.Find(a, all[0].ID); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}
