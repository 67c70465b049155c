package database

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
)

// newest is the version of the schema of this binary.
var newest = len(schemaSteps("sqlite"))

// backupOf names the backup that a migration from the newest version makes of a file.
func backupOf(file string) string { return fmt.Sprintf("%s.bak-v%d", file, newest) }

// withSteps returns the steps of this binary and more of them.
func withSteps(more ...string) []string { return append(schemaSteps("sqlite"), more...) }

// filled makes a closed database with one task.
func filled(t *testing.T) (path string, id api.TaskID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hortus.db")
	db, err := OpenSQLite(t.Context(), SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	id = api.NewTaskID()
	if err := db.InsertTask(t.Context(), api.Task{ID: id, State: api.TaskRunning, CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path, id
}

func files(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantFiles(t *testing.T, path string, want ...string) {
	t.Helper()
	if got := files(t, path); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}

func hasTask(t *testing.T, path string, id api.TaskID) {
	t.Helper()
	db := openTest(t, path)
	if _, err := db.Task(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestPragmas(t *testing.T) {
	db := newTest(t)
	for _, pool := range []pool{db.write, db.read} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "busy_timeout": "5000", "cache_size": "-400"} {
			var got string
			if err := pool.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
			}
		}
	}
	for pragma, want := range map[string]int{"synchronous": 1, "foreign_keys": 1} {
		var got int
		if err := db.write.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", pragma, got, err, want)
		}
	}
	if _, err := db.read.Exec("DELETE FROM event"); err == nil {
		t.Error("a reading connection can write")
	}
}

func TestFileModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	db := openTest(t, path)
	if _, err := db.AppendEvent(t.Context(), api.Stream{Kind: "task", ID: "t"}, "x", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, path, "hortus.db", "hortus.db-key", "hortus.db-shm", "hortus.db-wal")
	for _, name := range files(t, path) {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}

	path, id := filled(t)
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	hasTask(t, path, id)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("an open mode stayed %v (%v)", info.Mode(), err)
	}
}

func TestStrangePath(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "b#c", "d%41", "e f", "g\xff", "file:h"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		openTest(t, path)
		if got := files(t, path); !slices.Contains(got, name) || len(got) != 4 {
			t.Errorf("%q made files %q", name, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	// Files that are databases: of somebody else, of nobody, of ours without tables of ours, and of
	// a development version, which had its versions in a table.
	for name, statements := range map[string]string{
		"foreign": `PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE theirs (x)`,
		"plain":   `CREATE TABLE theirs (x)`,
		"odd":     fmt.Sprintf(`PRAGMA application_id = %d; CREATE TABLE theirs (x)`, applicationID),
		"development": `PRAGMA journal_mode = WAL; PRAGMA user_version = 2;
			CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));
			INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (17, 1), (18, 1);
			CREATE TABLE owner (id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL) STRICT`,
	} {
		other, err := sql.Open("sqlite", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(statements); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		path string
		kind api.Kind
		says string
	}{
		{"", api.KindInvalid, "not a path"},
		{filepath.Join(dir, "missing", "hortus.db"), api.KindNotFound, "does not exist"},
		{dir, api.KindConflict, "not a regular file"},
		{filepath.Join(dir, "foreign"), api.KindConflict, "is not a hortus database"},
		{filepath.Join(dir, "plain"), api.KindConflict, "is not a hortus database"},
		{filepath.Join(dir, "odd"), api.KindConflict, "is not a hortus database"},
		{filepath.Join(dir, "development"), api.KindConflict, dir + " is a data directory of a development version of hortus"},
		{text, api.KindInternal, "read the schema"},
	} {
		var before [32]byte
		if info, err := os.Stat(test.path); err == nil && info.Mode().IsRegular() {
			before = sum(t, test.path)
		}
		_, err := OpenSQLite(t.Context(), SQLite{Path: test.path})
		if api.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v, want kind %s and %q", test.path, err, test.kind, test.says)
		}
		if strings.HasSuffix(test.path, "development") && !strings.Contains(api.HintOf(err), "hortus uninstall") {
			t.Errorf("the next step is %q", api.HintOf(err))
		}
		if before != [32]byte{} && before != sum(t, test.path) {
			t.Errorf("%q was changed", test.path)
		}
	}
	// A read-only connection cannot remove the empty log that it had to make.
	wantFiles(t, text, "development", "development-shm", "development-wal", "foreign", "odd", "plain", "text")
}

// TestSchemaIsFixed: files of this version exist. Who wants another schema adds a step, and not
// another fingerprint.
func TestSchemaIsFixed(t *testing.T) {
	db := newTest(t)
	all, err := list(t.Context(), db.read, "tables", scanValue[string], `SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY type, name`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(strings.Fields(strings.Join(all, ";")), " "))))
	if want := "f3943700e377a4b05701babb20e6fa453ff67000072ec3888a951ab7f45ccb07"; got != want || newest != 12 {
		t.Errorf("version %d has the fingerprint %s, want %s of version 12", newest, got, want)
	}
}

// TestLifecycleAfterMigration: a sandbox of a database of version 1 was created before, so it is resumed.
func TestLifecycleAfterMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	box := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxPaused, CreatedAt: time.Now(), ExpiresAt: time.Now()}
	for i, state := range []string{"paused", "running"} {
		// OpenSQLite prepares statements on plans.
		steps := schemaSteps("sqlite")
		db, err := openSQLite(t.Context(), SQLite{Path: path}, []string{steps[0] + steps[4], steps[1]}[:1+i])
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if i == 0 {
			err = db.InsertSandbox(t.Context(), box)
		}
		if err == nil {
			_, err = db.AppendEvent(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(box.ID)}, api.EventSandboxState, time.Now(), fmt.Appendf(nil, `{"state":%q}`, state))
		}
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			all, err := db.LifecycleEvents(t.Context(), api.LifecycleFilter{Limit: 9})
			if err != nil || len(all) != 1 || all[0].Type != api.LifecycleResumed {
				t.Errorf("%+v, %v", all, err)
			}
		}
		db.Close()
	}
}

func TestNewerSchemaRefused(t *testing.T) {
	path, id := filled(t)
	newer := withSteps("CREATE TABLE a (x INTEGER);", "CREATE TABLE b (x INTEGER);", "CREATE TABLE c (x INTEGER);")
	db, err := openSQLite(t.Context(), SQLite{Path: path}, newer)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	before := sum(t, path)

	_, err = OpenSQLite(t.Context(), SQLite{Path: path})
	if api.KindOf(err) != api.KindConflict {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprint("version ", newest+3)) || !strings.Contains(err.Error(), fmt.Sprint("up to ", newest)) {
		t.Errorf("the message does not name both versions: %v", err)
	}
	if !strings.Contains(api.HintOf(err), "--data-dir") {
		t.Errorf("hint %q", api.HintOf(err))
	}
	if sum(t, path) != before {
		t.Error("the refused database was changed")
	}
	// A read-only connection cannot remove the empty log that it had to make.
	wantFiles(t, path, "hortus.db", "hortus.db-key", "hortus.db-shm", "hortus.db-wal", backupOf("hortus.db"))
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the refused database has a log: %v (%v)", info, err)
	}

	db, err = openSQLite(t.Context(), SQLite{Path: path}, newer)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Task(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestBackupBeforeMigration(t *testing.T) {
	path, id := filled(t)
	wantFiles(t, path, "hortus.db", "hortus.db-key") // none for the first schema of a new file
	taken := backupOf(path)
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backupOf(path)+".partial", []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg := SQLite{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	db, err := openSQLite(t.Context(), cfg, withSteps("DELETE FROM task;", "ALTER TABLE task ADD COLUMN b TEXT;"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, path, "hortus.db", "hortus.db-key", backupOf("hortus.db"), backupOf("hortus.db")+".2")
	if data, _ := os.ReadFile(taken); string(data) != "precious" {
		t.Errorf("an existing backup was replaced by %q", data)
	}
	if !strings.Contains(log.String(), taken+".2") {
		t.Errorf("the log does not name the backup: %s", &log)
	}
	info, err := os.Stat(taken + ".2")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("backup mode %v (%v)", info.Mode(), err)
	}
	// The copy is a database of its own, with the schema and rows of before.
	hasTask(t, taken+".2", id)
}

func TestFailedMigrationLeavesOldDatabase(t *testing.T) {
	for name, bad := range map[string]string{
		"bad statement": "CREATE TABLE half (x INTEGER); INSERT INTO missing VALUES (1);",
		"broken reference": `INSERT INTO attempt (task, n, host, lease_epoch, stdout_path, stderr_path, doc)
			VALUES ('nobody', 1, '', 1, '', '', '{}');`,
	} {
		t.Run(name, func(t *testing.T) {
			path, id := filled(t)
			before := sum(t, path)
			_, err := openSQLite(t.Context(), SQLite{Path: path}, withSteps("DROP TABLE event; DELETE FROM task;", bad))
			if err == nil {
				t.Fatal("a bad migration passed")
			}
			if !strings.Contains(err.Error(), fmt.Sprintf("from version %d to %d", newest, newest+2)) || api.HintOf(err) == "" {
				t.Errorf("%v (hint %q)", err, api.HintOf(err))
			}
			if sum(t, path) != before {
				t.Error("the failed migration changed the file")
			}
			// The binary of before still works with it, the good first
			// migration included in what was undone.
			db := openTest(t, path)
			if _, err := db.Task(t.Context(), id); err != nil {
				t.Error(err)
			}
			if _, err := db.AppendEvent(t.Context(), api.Stream{Kind: "task", ID: string(id)}, "x", time.Now(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMigrationCanceled(t *testing.T) {
	path, id := filled(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := openSQLite(ctx, SQLite{Path: path}, withSteps(`CREATE TABLE n AS
		WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c;`))
	if api.KindOf(err) != api.KindTimeout {
		t.Fatalf("got %v", err)
	}
	hasTask(t, path, id)
}

// TestRebuildTable does what SQLite needs for most changes of a table that
// others refer to.
func TestRebuildTable(t *testing.T) {
	path, id := filled(t)
	db := openTest(t, path)
	if err := db.PutAttempt(t.Context(), id, api.Attempt{N: 1}); err != nil {
		t.Fatal(err)
	}
	db2, err := openSQLite(t.Context(), SQLite{Path: path}, withSteps(`
		CREATE TABLE task2 (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT, host TEXT, lease_epoch INTEGER,
			state TEXT, created_at INTEGER, ended_at INTEGER, doc TEXT);
		INSERT INTO task2 SELECT seq, id, owner, host, lease_epoch, state, created_at, ended_at, doc FROM task;
		DROP TABLE task;
		ALTER TABLE task2 RENAME TO task;`))
	if err != nil {
		t.Fatal(err)
	}
	defer db2.Close()
	got, err := db2.Task(t.Context(), id)
	if err != nil || len(got.Attempts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConcurrentOpen(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "hortus.db")
	old, id := filled(t)
	newer := withSteps("CREATE TABLE x (y INTEGER);")
	for _, test := range []struct {
		path  string
		steps []string
	}{{fresh, schemaSteps("sqlite")}, {old, newer}} {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				db, err := openSQLite(t.Context(), SQLite{Path: test.path}, test.steps)
				if err != nil {
					t.Error(err)
					return
				}
				defer db.Close()
				if _, err := db.AppendEvent(t.Context(), api.Stream{Kind: "task", ID: "t"}, "x", time.Now(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		db, err := openSQLite(t.Context(), SQLite{Path: test.path}, test.steps)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		events, err := db.ReadEvents(t.Context(), api.Stream{Kind: "task", ID: "t"}, 0, 100)
		if err != nil || len(events) != 8 {
			t.Errorf("%d events of 8 (%v)", len(events), err)
		}
		if test.path == old {
			if _, err := db.Task(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := os.Stat(backupOf(old) + ".2"); err == nil {
		t.Error("two backups of one migration")
	}
}

func TestClosed(t *testing.T) {
	db, err := OpenSQLite(t.Context(), SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = db.Task(t.Context(), "t")
	if api.KindOf(err) != api.KindUnavailable {
		t.Errorf("read: %v", err)
	}
	_, err = db.AppendEvent(t.Context(), api.Stream{Kind: "task", ID: "t"}, "x", time.Now(), nil)
	if api.KindOf(err) != api.KindUnavailable {
		t.Errorf("append: %v", err)
	}
	if err := db.EndOwner(t.Context(), "o", time.Now()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("write: %v", err)
	}
}

// TestUpgradeToBothDatabases: rows of version 7 have what version 8 looks for, and a copy of the file is kept.
func TestUpgradeToBothDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	old, err := openSQLite(t.Context(), SQLite{Path: path}, schemaSteps("sqlite")[:7])
	if err != nil {
		t.Fatal(err)
	}
	ctx, now := t.Context(), time.Now()
	_, lesson := old.PutLesson(ctx, api.Lesson{ID: "l1", Scope: "s", Fingerprint: "f", Failure: "KeyError: customer_id", Fix: "x", Task: "t1", LearnedAt: now})
	for _, err := range []error{
		lesson,
		old.InsertWorkspace(ctx, api.Workspace{ID: "w1", State: api.WorkspaceIdle, Keep: true, CreatedAt: now}),
		old.InsertWorkspace(ctx, api.Workspace{ID: "w2", State: api.WorkspaceIdle, CreatedAt: now}),
		old.InsertTask(ctx, api.Task{ID: "t1", State: api.TaskRunning, CreatedAt: now, Create: api.CreateTask{Repo: &api.RepoTask{}}}),
		old.InsertTask(ctx, api.Task{ID: "t2", State: api.TaskRunning, CreatedAt: now}),
		old.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	db := openTest(t, path)
	if found, err := db.SimilarLessons(ctx, api.LessonQuery{Scope: "s", Words: []string{"customer_id"}, Limit: 9}); err != nil || len(found) != 1 {
		t.Errorf("%d lessons, %v", len(found), err)
	}
	if n, err := db.KeptWorkspaces(ctx, "", 9); err != nil || n != 1 {
		t.Errorf("%d workspaces are kept, %v", n, err)
	}
	if all, _, err := db.TaskPage(ctx, "", true, api.PageRequest{}); err != nil || len(all) != 1 || all[0].ID != "t2" {
		t.Errorf("%d tasks are programs, %v", len(all), err)
	}
	if _, err := os.Stat(path + ".bak-v7"); err != nil {
		t.Error(err)
	}
}
