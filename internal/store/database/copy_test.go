package database

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
)

// copyEnv tells the test binary that it is the child of TestCopyKilled: a file and an address.
const copyEnv = "HORTUS_TEST_STORE_COPY"

// odd is text that Postgres cannot store as it is.
const odd = "a\x00b\xff\uFDD0"

// fullFile makes a closed database with rows in each table that is copied.
func fullFile(t *testing.T, events int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hortus.db")
	db, err := OpenSQLite(t.Context(), SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, now := t.Context(), time.Now()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	owner, key := api.NewOwnerID(), api.NewKeyID()
	must(db.InsertOwner(ctx, store.Owner{ID: owner, Host: odd, LockPath: odd, StartedAt: now}))
	box := api.Sandbox{ID: "i1", Owner: owner, State: api.SandboxRunning, Account: "a", Task: "t1", CreatedAt: now, Env: map[string]string{"A": odd}}
	must(db.InsertSandbox(ctx, box))
	must(db.InsertExec(ctx, api.Exec{ID: "x1", Sandbox: box.ID, Args: []string{odd}, State: api.ExecRunning, StartedAt: now}))
	must(db.InsertTask(ctx, api.Task{ID: "t1", Owner: owner, Account: "a", State: api.TaskRunning, CreatedAt: now}))
	must(db.PutAttempt(ctx, "t1", api.Attempt{N: 1, StdoutPath: odd}))
	must(db.InsertRun(ctx, store.Run{ID: "r1", Kind: "k", Owner: owner, Input: []byte(odd), CreatedAt: now}))
	_, err = db.BeginStep(ctx, "r1", owner, store.RunStep{Name: "s", StartedAt: now})
	must(err)
	must(db.InsertSession(ctx, store.Session{ID: "s1", Key: odd, Owner: owner, CreatedAt: now, Doc: []byte(odd)}, 9, store.SessionTurn{N: 1, Doc: []byte("{}")}))
	must(db.InsertWorkspace(ctx, api.Workspace{ID: "w1", State: api.WorkspaceIdle, Keep: true, CreatedAt: now}))
	must(db.InsertSnapshot(ctx, api.Snapshot{ID: "n1", Name: odd, State: api.SnapshotReady, CreatedAt: now}))
	must(db.InsertRepository(ctx, api.Repository{ID: "p1", Name: odd, State: api.RepositoryReady, CreatedAt: now}))
	must(db.InsertHookEvent(ctx, api.HookEvent{Repository: "p1", Cause: odd, At: now, State: "refused", OverBudget: true}, now.Add(-time.Hour), 9))
	for i := range events {
		_, err = db.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: "i1"}, api.EventSandboxState, now, fmt.Appendf(nil, `{"state":%q,"why":"\u0000"}`, []string{"running", "paused"}[i%2]))
		must(err)
	}
	must(db.InsertKey(ctx, api.Key{ID: key, Role: api.RoleAdmin, CreatedAt: now}, "hash"))
	must(db.InsertSignIn(ctx, store.SignIn{Hash: "h", Key: key, CreatedAt: now, UsedAt: now}, time.Time{}, time.Time{}, 9))
	_, _, err = db.BeginOnce(ctx, store.Once{Key: odd, Request: []byte(odd), CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, 9)
	must(err)
	must(db.InsertEgress(ctx, []api.EgressDecision{{Sandbox: "i1", Op: "connect", Host: odd, At: now, Result: api.EgressDenied}, {Sandbox: "i1", Op: "connect", At: now, Result: api.EgressDenied}}))
	_, err = db.PutSecret(ctx, secrets.Secret{Name: "n", Source: secrets.Stored, CreatedAt: now, UpdatedAt: now, Budgets: []secrets.Budget{{Unit: "requests", Amount: 100}}}, "value", 9)
	must(err)
	must(db.InsertSecretUses(ctx, []secrets.Use{{Secret: "n", Sandbox: "i1", At: now}}))
	_, err = db.ReserveSecret(ctx, secrets.Spender{Secret: "n", Task: "t1", At: now}, secrets.Amounts{Requests: 1})
	must(err)
	l, err := db.PutLesson(ctx, api.Lesson{ID: "l1", Scope: "s", Fingerprint: "f", Failure: odd, Fix: "x", Task: "t1", LearnedAt: now})
	must(err)
	must(db.PutLessonVectors(ctx, "", []store.LessonVector{{ID: l.ID, Failure: l.Failure, Model: "m", Values: []float32{1, 2}}}))
	must(db.InsertWebhook(ctx, api.Webhook{ID: "h1", URL: "u", Events: []api.LifecycleType{api.LifecycleCreated}, Enabled: true, CreatedAt: now}, "secret", 9))
	must(db.PutDelivery(ctx, api.WebhookDelivery{ID: "d1", Webhook: "h1"}, 9))
	must(db.PutNode(ctx, store.Node{ID: "n1", Name: odd, Owner: owner, State: api.NodeReady}))
	_, err = db.ShareValue(ctx, odd, []byte(odd))
	must(err)
	_, err = db.Lead(ctx, odd, owner, time.Hour)
	must(err)
	must(db.InsertVolume(ctx, api.Volume{ID: "v1", Name: odd, CreatedAt: now}, 9))
	_, err = db.PutDocument(ctx, api.StoredDocument{Name: "d", Title: "t", Text: odd, WrittenAt: now}, nil)
	must(err)
	must(db.InsertPlan(ctx, store.Plan{ID: "pl1", Repository: "r", Owner: owner, CreatedAt: now, Doc: []byte(odd)}, 9, store.PlanItem{N: 1, Doc: []byte(odd)}))
	_, err = db.write.ExecContext(ctx, `INSERT INTO task_tally (account, day, sums) VALUES ('', 1, $1)`, []byte{0, 1})
	must(err)
	// A number that was given is not given again.
	_, err = db.write.ExecContext(ctx, `DELETE FROM egress WHERE seq = 2`)
	must(err)
	must(db.Close())
	return path
}

// copyFile copies a file to a database of a server.
func copyFile(t *testing.T, path, url string, report func(Copied)) error {
	t.Helper()
	return copyRows(t.Context(), path, url, report)
}

func copyRows(ctx context.Context, path, url string, report func(Copied)) error {
	from, err := OpenSQLite(ctx, SQLite{Path: path, Ahead: true})
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := OpenPostgres(ctx, Postgres{URL: url, KeyFile: path + keySuffix})
	if err != nil {
		return err
	}
	defer to.Close()
	return Copy(ctx, from, to, report)
}

func TestCopy(t *testing.T) {
	server := postgrestest.Start(t)
	name := server.Database(t)
	url := server.URL(postgrestest.User, name)
	path := fullFile(t, 3)
	verified := map[string]int64{}
	if err := copyFile(t, path, url, func(c Copied) {
		if c.Verified {
			verified[c.Table] = c.Rows
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, table := range copiedTables {
		if verified[table.name] == 0 {
			t.Errorf("no row of table %s was copied: add one to the file of this test", table.name)
		}
	}
	db, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: path + keySuffix})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	if box, err := db.Sandbox(ctx, "i1"); err != nil || box.Env["A"] != odd {
		t.Errorf("%+v, %v", box, err)
	}
	if value, err := db.SecretValue(ctx, "", "n"); err != nil || value != "value" {
		t.Errorf("%q, %v", value, err)
	}
	// What is stored next follows, and the triggers work again.
	if seq, err := db.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: "i1"}, api.EventSandboxState, time.Now(), []byte(`{"state":"paused"}`)); err != nil || seq != 4 {
		t.Errorf("the next event is %d, %v", seq, err)
	}
	if n, err := db.NewestLifecycle(ctx); err != nil || n != 4 {
		t.Errorf("the next lifecycle event is %d, %v", n, err)
	}
	next := []api.EgressDecision{{Sandbox: "i1", Op: "connect", At: time.Now(), Result: api.EgressDenied}}
	if err := db.InsertEgress(ctx, next); err != nil || next[0].Seq != 3 {
		t.Errorf("the next decision is %d, %v", next[0].Seq, err)
	}
	// Again, it is done already; another file is refused.
	if err := copyFile(t, path, url, func(c Copied) { t.Errorf("copies again: %+v", c) }); err != nil {
		t.Error(err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other+keySuffix, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(t, other, url, func(Copied) {}); api.KindOf(err) != api.KindConflict {
		t.Errorf("another key: %v", err)
	}
	occupied := server.Database(t)
	busy := openServer(t, server.URL(postgrestest.User, occupied))
	if err := busy.InsertOwner(ctx, store.Owner{ID: "o", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	from, err := OpenSQLite(ctx, SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := Copy(ctx, from, busy, func(Copied) {}); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "owner") {
		t.Errorf("a target with rows: %v", err)
	}
}

// TestCopyVerifies changes a row of the source after it was copied: the copy fails and leaves nothing behind.
func TestCopyVerifies(t *testing.T) {
	server := postgrestest.Start(t)
	to := openServer(t, server.URL(postgrestest.User, server.Database(t)))
	from, err := OpenSQLite(t.Context(), SQLite{Path: fullFile(t, 3)})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, change := range []string{`UPDATE lesson SET fix = 'y'`, `INSERT INTO task_tally VALUES ('b', 1, x'')`, `DELETE FROM plan_item`} {
		err := Copy(t.Context(), from, to, func(c Copied) {
			if c.Table == "plan_item" && !c.Verified { // the last one
				if _, err := from.write.Exec(change); err != nil {
					t.Error(err)
				}
			}
		})
		if api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), "not like the original") {
			t.Errorf("%s: %v", change, err)
		}
		if owners, err := to.Owners(t.Context()); err != nil || len(owners) != 0 {
			t.Errorf("%s: %d rows are left, %v", change, len(owners), err)
		}
	}
}

// copyChild is the child of TestCopyKilled.
func copyChild(arg string) error {
	path, url, _ := strings.Cut(arg, " ")
	return copyRows(context.Background(), path, url, func(c Copied) { fmt.Println(c.Table, c.Rows, c.Verified) })
}

// TestCopyKilled kills a copy in the middle and begins again.
func TestCopyKilled(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.URL(postgrestest.User, server.Database(t))
	path := fullFile(t, 3)
	for _, when := range []string{"sandbox 1 false", "event 3 true"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), copyEnv+"="+path+" "+url)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		for b := make([]byte, 4096); !strings.Contains(seen.String(), when+"\n"); {
			n, err := out.Read(b)
			seen.Write(b[:n])
			if err != nil {
				break
			}
		}
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		if !strings.Contains(seen.String(), when) {
			t.Fatalf("the copy ended before %s: %s", when, seen.String())
		}
	}
	tables := map[string]bool{}
	if err := copyFile(t, path, url, func(c Copied) { tables[c.Table] = tables[c.Table] || c.Verified }); err != nil {
		t.Fatal(err)
	}
	if len(tables) != len(copiedTables) {
		t.Errorf("%d tables of %d", len(tables), len(copiedTables))
	}
}

// TestSchemasHaveTheSameTables: a table that one database has is in the other one too, with the same columns, and is copied.
func TestSchemasHaveTheSameTables(t *testing.T) {
	server := postgrestest.Start(t)
	there, here := openServer(t, server.URL(postgrestest.User, server.Database(t))), newTest(t)
	columns := func(db *DB, query string) []string {
		t.Helper()
		all, err := list(t.Context(), db.read, "columns", scanValue[string], query)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return all
	}
	// What Postgres has besides, and why is in its schema.
	besides := []string{"hook_event.rowid", "identity.id", "identity.sealed", "identity.source", "lifecycle.id", "lifecycle_newest.seq", "owner.rowid", "schema_version.version"}
	lite := columns(here, `SELECT m.name || '.' || c.name FROM sqlite_schema AS m JOIN pragma_table_xinfo(m.name) AS c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'`)
	server15 := columns(there, `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()`)
	server15 = slices.DeleteFunc(server15, func(c string) bool { return slices.Contains(besides, c) })
	if !slices.Equal(lite, server15) {
		t.Errorf("SQLite has %q\nPostgres has %q", lite, server15)
	}
	for _, c := range lite {
		table, _, _ := strings.Cut(c, ".")
		if !slices.ContainsFunc(copiedTables, func(c struct{ name, order string }) bool { return c.name == table }) {
			t.Errorf("table %s is not copied", table)
		}
	}
}
