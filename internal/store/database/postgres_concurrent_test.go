package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
)

// twoDaemons returns two stores of the same database.
func twoDaemons(t *testing.T, server *postgrestest.Server) (one, two *DB) {
	t.Helper()
	url, key := server.URL(postgrestest.User, server.Database(t)), t.TempDir()+"/key"
	open := func() *DB {
		db, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: key})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	return open(), open()
}

// begin begins a transaction that the test ends.
func begin(t *testing.T, db *DB) *sql.Tx {
	t.Helper()
	tx, err := db.write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// waitForLock waits until a connection of the database waits for a lock.
func waitForLock(t *testing.T, db *DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	for waiting := 0; waiting == 0; {
		err := db.read.QueryRowContext(ctx, `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatal("nobody waits for a lock:", err)
		}
	}
}

// TestExclusive: of two daemons one is in Exclusive with a name, and each with a name of its own.
func TestExclusive(t *testing.T) {
	one, two := twoDaemons(t, postgrestest.Start(t))
	ctx := t.Context()
	entered := make(chan struct{})
	var inside atomic.Bool
	var other sync.WaitGroup
	must(t, one.Exclusive(ctx, "a", func() error {
		inside.Store(true)
		other.Go(func() {
			err := two.Exclusive(ctx, "a", func() error {
				if inside.Load() {
					t.Error("both are inside")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			close(entered)
		})
		waitForLock(t, one)
		must(t, two.Exclusive(ctx, "b", func() error { return nil }))
		select {
		case <-entered:
			t.Error("the other one did not wait")
		default:
		}
		inside.Store(false)
		return nil
	}))
	other.Wait()
	broken := errors.New("broken")
	if err := one.Exclusive(ctx, "a", func() error { return broken }); err != broken {
		t.Errorf("its error: %v", err)
	}
	must(t, two.Exclusive(ctx, "a", func() error { return nil }))
}

// TestConcurrentPostgres has two daemons use one database.
func TestConcurrentPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	t.Run("event waits for the number before it", func(t *testing.T) {
		one, two := twoDaemons(t, server)
		ctx, stream := t.Context(), api.Stream{Kind: api.StreamTask, ID: "t1"}
		for _, commits := range []bool{false, true} {
			tx := begin(t, one)
			first := api.Event{Stream: stream, Type: "first", At: time.Now(), Data: []byte("{}")}
			if err := one.appendIn(ctx, tx, &first); err != nil || first.Seq != 1 {
				t.Fatal(first.Seq, err)
			}
			number := make(chan int64)
			go func() {
				n, err := two.AppendEvent(ctx, stream, "second", time.Now(), nil)
				if err != nil {
					t.Error(err)
				}
				number <- n
			}()
			waitForLock(t, one)
			if seen, err := two.ReadEvents(ctx, stream, 0, 9); err != nil || len(seen) != 0 {
				t.Errorf("%d events are visible before the first one, %v", len(seen), err)
			}
			// Another stream does not wait.
			if _, err := two.AppendEvent(ctx, api.Stream{Kind: api.StreamTask, ID: fmt.Sprint("t2", commits)}, "x", time.Now(), nil); err != nil {
				t.Error(err)
			}
			if !commits {
				tx.Rollback()
				if n := <-number; n != 1 {
					t.Errorf("the number is %d after the first event was rolled back", n)
				}
				stream.ID = "t3"
				continue
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := <-number; n != 2 {
				t.Errorf("the number is %d, want 2", n)
			}
		}
	})

	t.Run("lifecycle event that commits late is not missed", func(t *testing.T) {
		one, two := twoDaemons(t, server)
		ctx := t.Context()
		for _, id := range []api.SandboxID{"i1", "i2"} {
			if err := one.InsertSandbox(ctx, api.Sandbox{ID: id, State: api.SandboxRunning, CreatedAt: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		running := []byte(`{"state":"running"}`)
		tx := begin(t, one)
		late := api.Event{Stream: api.Stream{Kind: api.StreamSandbox, ID: "i1"}, Type: api.EventSandboxState, At: time.Now(), Data: running}
		if err := one.appendIn(ctx, tx, &late); err != nil {
			t.Fatal(err)
		}
		if _, err := two.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: "i2"}, api.EventSandboxState, time.Now(), running); err != nil {
			t.Fatal(err)
		}
		read := func(after int64) []api.LifecycleEvent {
			t.Helper()
			all, err := two.LifecycleEvents(ctx, api.LifecycleFilter{After: after, Ascending: true, Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		first := read(0)
		if len(first) != 1 || first[0].Sandbox.ID != "i2" || first[0].Seq != 1 {
			t.Fatalf("%+v", first)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if then := read(first[0].Seq); len(then) != 1 || then[0].Sandbox.ID != "i1" || then[0].Seq != 2 {
			t.Errorf("%+v", then)
		}
		// The control: a number that the transaction took would be before what was read already.
		var before bool
		if err := one.read.QueryRow(`SELECT (SELECT id FROM lifecycle WHERE sandbox = 'i1') < (SELECT id FROM lifecycle WHERE sandbox = 'i2')`).Scan(&before); err != nil || !before {
			t.Errorf("the numbers of insertion are in the order of the commits (%v): this test shows nothing", err)
		}
	})

	t.Run("limits hold", func(t *testing.T) {
		one, two := twoDaemons(t, server)
		var stored atomic.Int64
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				err := []*DB{one, two}[i%2].InsertVolume(t.Context(), api.Volume{ID: api.NewVolumeID(), Name: fmt.Sprint(i), CreatedAt: time.Now()}, 3)
				switch api.KindOf(err) {
				case "":
					stored.Add(1)
				case api.KindExhausted:
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := stored.Load(); n != 3 {
			t.Errorf("%d volumes, the maximum is 3", n)
		}
	})

	t.Run("sums of tasks count each task once", func(t *testing.T) {
		one, two := twoDaemons(t, server)
		ctx := t.Context()
		const tasks = 60
		for i := range tasks {
			k := api.Task{ID: api.TaskID(fmt.Sprintf("t%03d", i)), State: api.TaskDone, CreatedAt: time.Now(), EndedAt: time.Now().Add(-time.Hour)}
			if err := one.InsertTask(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
		var group sync.WaitGroup
		for _, db := range []*DB{one, two} {
			group.Go(func() {
				keep := store.Retention{Rows: 1 << 20, Bytes: 1 << 40, Before: time.Now().Add(-time.Minute)}
				_, err := db.PruneTasks(ctx, keep, func(sums []byte, _ api.Task) ([]byte, error) { return append(sums, 'x'), nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		counted := 0
		if err := one.WalkTallies(ctx, "", time.Time{}, func(sums []byte) error { counted += len(sums); return nil }); err != nil || counted != tasks {
			t.Errorf("%d tasks are counted, want %d; %v", counted, tasks, err)
		}
	})

	t.Run("owner ends after a row became its own", func(t *testing.T) {
		one, two := twoDaemons(t, server)
		ctx, now := t.Context(), time.Now()
		for _, id := range []api.OwnerID{"o1", "o2", "o3"} {
			if err := one.InsertOwner(ctx, store.Owner{ID: id, Host: "h", StartedAt: now}); err != nil {
				t.Fatal(err)
			}
		}
		box := api.Sandbox{ID: "i1", Owner: "o1", State: api.SandboxRunning, CreatedAt: now}
		if err := one.InsertSandbox(ctx, box); err != nil {
			t.Fatal(err)
		}
		if err := one.EndOwner(ctx, "o1", now); err != nil {
			t.Fatal(err)
		}
		box.Owner = "o2"
		args, err := one.sandboxes.args(box)
		if err != nil {
			t.Fatal(err)
		}
		tx := begin(t, one)
		if err := one.sandboxes.updateIn(ctx, tx, args); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- two.EndOwner(ctx, "o2", now) }()
		waitForLock(t, one)
		// A command that begins now has the owner of the sandbox after the change.
		inserted := make(chan error)
		go func() {
			inserted <- two.InsertExec(ctx, api.Exec{ID: "x1", Sandbox: "i1", State: api.ExecRunning, StartedAt: now})
		}()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := <-inserted; err != nil {
			t.Error(err)
		}
		var owner string
		if err := one.read.QueryRow(`SELECT owner FROM exec WHERE id = 'x1'`).Scan(&owner); err != nil || owner != "o2" {
			t.Errorf("the command belongs to %q, %v", owner, err)
		}
		// o3 is alive, o2 has ended: no row becomes its own.
		box.Owner = "o3"
		if err := one.UpdateSandbox(ctx, box); err != nil {
			t.Error(err)
		}
		box.Owner = "o2"
		if err := one.UpdateSandbox(ctx, box); api.KindOf(err) != api.KindConflict {
			t.Errorf("an owner that has ended gets a row: %v", err)
		}
	})
}

// TestPostgresErrors: each way in which there is no database says what to do.
func TestPostgresErrors(t *testing.T) {
	server := postgrestest.Start(t)
	ctx := t.Context()
	name := server.Database(t)
	foreign, denied, newer := server.Database(t), server.Database(t), server.Database(t)
	server.Exec(t, foreign, "CREATE TABLE theirs (x INT)")
	server.Exec(t, newer, "CREATE TABLE schema_version (version BIGINT); INSERT INTO schema_version VALUES (99)")
	url := func(database string) string { return server.URL(postgrestest.User, database) }
	for _, test := range []struct {
		name string
		cfg  Postgres
		kind api.Kind
		hint string
	}{
		{"no address", Postgres{URL: "mysql://x"}, api.KindInvalid, "postgres://USER@HOST"},
		{"password in the address", Postgres{URL: "postgres://u:hunter2@localhost/x"}, api.KindInvalid, "store.password-file"},
		{"password among the parameters", Postgres{URL: "postgres://localhost/x?password=hunter2"}, api.KindInvalid, "store.password-file"},
		{"invalid address with a password", Postgres{URL: "postgres://u:hunter2@[localhost/x"}, api.KindInvalid, "postgres://USER@HOST"},
		{"unreachable", Postgres{URL: "postgres://u@127.0.0.1:1/x"}, api.KindUnavailable, "psql"},
		{"no server at a socket", Postgres{URL: "postgres:///x?host=" + t.TempDir()}, api.KindUnavailable, "start the server"},
		{"unknown database", Postgres{URL: url("unknown")}, api.KindNotFound, "createdb"},
		{"wrong password", Postgres{URL: server.URL(postgrestest.Locked, name), Password: "hunter2"}, api.KindDenied, "store.password-file"},
		{"no right to create tables", Postgres{URL: server.URL(postgrestest.Locked, denied), Password: postgrestest.Password}, api.KindDenied, "owner of the database"},
		{"another program's database", Postgres{URL: url(foreign)}, api.KindConflict, "for hortus alone"},
		{"newer schema", Postgres{URL: url(newer)}, api.KindConflict, "newer binary"},
	} {
		test.cfg.KeyFile = t.TempDir() + "/key"
		db, err := OpenPostgres(ctx, test.cfg)
		if err == nil {
			db.Close()
		}
		if api.KindOf(err) != test.kind || !strings.Contains(api.HintOf(err), test.hint) {
			t.Errorf("%s: %v, next: %s", test.name, err, api.HintOf(err))
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %v", test.name, err)
		}
		if err != nil && strings.Contains(err.Error()+api.HintOf(err), "hunter2") {
			t.Errorf("%s: the error has the password: %v", test.name, err)
		}
	}

	// The control of the refusals: with the right password and rights it opens.
	server.Exec(t, denied, "GRANT CREATE ON SCHEMA public TO "+postgrestest.Locked)
	key := t.TempDir() + "/key"
	right := Postgres{URL: server.URL(postgrestest.Locked, denied), Password: postgrestest.Password, KeyFile: key}
	db, err := OpenPostgres(ctx, right)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, says, hint string
		kind             api.Kind
	}{
		{key + "2", key + "2 does not exist", "copy hortus.db-key", api.KindConflict},
		{sameKey(t), "another key", "copy hortus.db-key", api.KindConflict},
		{"/dev/null", "is not a plain file", "copy hortus.db-key", api.KindDenied},
		{key, "has mode 0644", "chmod 600 " + key, api.KindDenied},
	} {
		if c.file == key {
			must(t, os.Chmod(key, 0o644))
		}
		right.KeyFile = c.file
		_, err := OpenPostgres(ctx, right)
		if api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(api.HintOf(err), c.hint) {
			t.Errorf("key %s: %v, next: %s", c.file, err, api.HintOf(err))
		}
	}
	if _, err := os.Lstat(key + "2"); err == nil {
		t.Error("a key was made for a database that has one")
	}
	must(t, os.Chmod(key, 0o600))

	// While the server is down calls fail, and afterwards they succeed.
	stream := api.Stream{Kind: api.StreamTask, ID: "t"}
	append := func() error {
		_, err := db.AppendEvent(ctx, stream, "x", time.Now(), nil)
		return err
	}
	if err := append(); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := append(); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("without a server: %v", err)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	if err := append(); err != nil {
		t.Errorf("after the server's start: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := append(); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("closed: %v", err)
	}
}

// TestConnectionsAreEncrypted: a server elsewhere needs a certificate for its name, unless the address says otherwise.
func TestConnectionsAreEncrypted(t *testing.T) {
	for url, verified := range map[string]bool{
		"postgres://u@db.example.org/x":                     true,
		"postgres://u@db.example.org/x?sslmode=verify-full": true,
		"postgres://u@db.example.org/x?sslmode=disable":     false,
		"postgres://u@localhost/x":                          false,
		"postgres://u@127.0.0.1/x":                          false,
		"postgres:///x?host=/run/postgresql":                false,
		"postgres://u@10.0.0.1/x":                           true,
	} {
		c, err := parsePostgres(Postgres{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := c.TLSConfig != nil && !c.TLSConfig.InsecureSkipVerify; got != verified {
			t.Errorf("%s: verified %t, want %t", url, got, verified)
		}
		if verified && len(c.Fallbacks) > 0 {
			t.Errorf("%s: it falls back to a connection without encryption", url)
		}
	}
}

// TestServerWithoutCertificate: the error of a server that does not encrypt says what it needs.
func TestServerWithoutCertificate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var server sync.WaitGroup
	server.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 8)) // the request to encrypt
			_, _ = c.Write([]byte("N"))
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); server.Wait() })
	_, err = OpenPostgres(t.Context(), Postgres{URL: "postgres://u@" + l.Addr().String() + "/x?sslmode=verify-full", KeyFile: t.TempDir() + "/key"})
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(api.AsError(err).Hint, "sslrootcert=FILE") {
		t.Errorf("%v, %+v", err, api.AsError(err))
	}
}
