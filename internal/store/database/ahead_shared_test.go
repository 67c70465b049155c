package database

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
)

// sharedWorld is a node with a sandbox whose rows of commands are stored ahead, and the database as another node has it.
type sharedWorld struct {
	*DB
	other     *DB
	url, file string
	owner     api.OwnerID
	heir      api.OwnerID
	box       api.Sandbox
}

func newSharedWorld(t *testing.T, server *postgrestest.Server, url string) *sharedWorld {
	t.Helper()
	w := &sharedWorld{url: url, file: filepath.Join(t.TempDir(), "ahead"), owner: api.NewOwnerID(), heir: api.NewOwnerID()}
	w.DB, w.other = openServerAhead(t, url, w.file), openServer(t, url)
	w.box = api.Sandbox{ID: api.NewSandboxID(), Owner: w.owner, State: api.SandboxRunning, CreatedAt: time.Now()}
	must(t, w.InsertOwner(t.Context(), store.Owner{ID: w.owner, StartedAt: time.Now()}))
	must(t, w.other.InsertOwner(t.Context(), store.Owner{ID: w.heir, StartedAt: time.Now()}))
	must(t, w.InsertSandbox(t.Context(), w.box))
	return w
}

// newSharedDatabase starts a server for one world.
func newSharedDatabase(t *testing.T) *sharedWorld {
	t.Helper()
	server := postgrestest.Start(t)
	return newSharedWorld(t, server, server.URL(postgrestest.User, server.Database(t)))
}

// command is a command of the world's sandbox.
func (w *sharedWorld) command(name string, state api.ExecState) api.Exec {
	e := api.Exec{ID: api.ExecID(name), Sandbox: w.box.ID, State: state, StartedAt: time.UnixMicro(1), Args: []string{"a\xff\x00b"}, Exit: api.Exit{Cause: "the node's"}}
	if state != api.ExecRunning {
		e.EndedAt = time.UnixMicro(2)
	}
	return e
}

// ended is a command as an heir ends it.
func (w *sharedWorld) ended() api.Exec {
	e := w.command("old", api.ExecUnknown)
	e.Exit.Cause = "the heir's"
	return e
}

// held has f store rows that no transaction has committed when it returns, and returns the file as it is then.
func (w *sharedWorld) held(t *testing.T, f func()) []byte {
	t.Helper()
	w.ahead.applying.Lock()
	defer w.ahead.applying.Unlock()
	f()
	b, err := os.ReadFile(w.file)
	must(t, err)
	return b
}

// commands are the states of all commands, as the other node reads them, with the cause if the heir wrote it.
func (w *sharedWorld) commands(t *testing.T) map[string]string {
	t.Helper()
	all, err := w.other.ListExecs(t.Context(), w.box.ID)
	must(t, err)
	out := map[string]string{}
	for _, e := range all {
		out[string(e.ID)] = string(e.State)
		if e.Exit.Cause == "the heir's" {
			out[string(e.ID)] += " by the heir"
		}
		if !slices.Equal(e.Args, []string{"a\xff\x00b"}) {
			t.Errorf("the arguments of %s are %q", e.ID, e.Args)
		}
	}
	return out
}

// TestAheadOfFence: another node ends or takes over a sandbox while rows of its commands are in the file of the node that had it. That one
// changes nothing any more, neither when it reaches the database again, nor when it is started again.
func TestAheadOfFence(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.URL(postgrestest.User, server.Database(t))
	for name, c := range map[string]struct {
		meanwhile func(w *sharedWorld) error
		want      map[string]string
	}{
		"nothing": {func(*sharedWorld) error { return nil }, map[string]string{"old": "exited", "short": "exited", "new": "running"}},
		"the owner ended, and nobody took over": {func(w *sharedWorld) error {
			return w.other.EndOwner(t.Context(), w.owner, time.Now())
		}, map[string]string{"old": "exited", "short": "exited", "new": "running"}},
		"commands ended": {func(w *sharedWorld) error {
			return w.other.UpdateExec(t.Context(), w.ended())
		}, map[string]string{"old": "unknown by the heir", "short": "exited", "new": "running"}},
		"lost": {func(w *sharedWorld) error {
			if err := w.other.UpdateExec(t.Context(), w.ended()); err != nil {
				return err
			}
			box := w.box
			box.State, box.EndedAt = api.SandboxLost, time.Now()
			return w.other.UpdateSandbox(t.Context(), box)
		}, map[string]string{"old": "unknown by the heir"}},
		"taken over": {func(w *sharedWorld) error {
			if err := w.other.EndOwner(t.Context(), w.owner, time.Now()); err != nil {
				return err
			}
			box := w.box
			box.Owner = w.heir
			return w.other.UpdateSandbox(t.Context(), box)
		}, map[string]string{"old": "running"}},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/again=%v", name, again), func(t *testing.T) {
				w := newSharedWorld(t, server, url)
				defer server.Exec(t, "test1", "DELETE FROM exec")
				must(t, w.InsertExec(t.Context(), w.command("old", api.ExecRunning)))
				must(t, w.ahead.flush(t.Context()))
				file := w.held(t, func() {
					must(t, w.UpdateExec(t.Context(), w.command("old", api.ExecExited)))
					must(t, w.InsertExec(t.Context(), w.command("short", api.ExecRunning)))
					must(t, w.UpdateExec(t.Context(), w.command("short", api.ExecExited)))
					must(t, w.InsertExec(t.Context(), w.command("new", api.ExecRunning)))
					if again { // what the process had in memory is lost
						w.ahead.mu.Lock()
						w.ahead.queue, w.ahead.position = nil, map[rowKey]int{}
						w.ahead.mu.Unlock()
					}
					must(t, c.meanwhile(w))
				})
				if again {
					must(t, w.Close())
					must(t, os.WriteFile(w.file, file, 0o600))
					w.DB = openServerAhead(t, w.url, w.file)
				} else {
					must(t, w.ahead.flush(t.Context()))
				}
				if got := w.commands(t); !maps.Equal(got, c.want) {
					t.Errorf("commands are %v, want %v", got, c.want)
				}
			})
		}
	}
}

// TestAheadOfOthers: what another node reads of a sandbox that it may take over, or that has ended, has all commands that came before.
func TestAheadOfOthers(t *testing.T) {
	w, ctx := newSharedDatabase(t), t.Context()
	paused := w.box
	paused.State, paused.Snapshot = api.SandboxPaused, api.NewSnapshotID()
	ended := w.box
	ended.State, ended.EndedAt = api.SandboxEnded, time.Now()
	for i, store := range []func() error{
		func() error { return w.UpdateSandbox(ctx, paused) },
		func() error { return w.MoveSandbox(ctx, paused, w.heir) },
		func() error { w.box.Owner, paused.Owner = w.heir, w.heir; return w.MoveSandbox(ctx, paused, w.owner) },
		func() error { w.box.Owner = w.owner; return w.UpdateSandbox(ctx, ended) },
	} {
		name := fmt.Sprint("x", i)
		must(t, w.InsertExec(ctx, w.command(name, api.ExecRunning)))
		must(t, w.UpdateExec(ctx, w.command(name, api.ExecExited)))
		must(t, store())
		if got := w.commands(t); got[name] != "exited" {
			t.Errorf("after write %d commands are %v", i, got)
		}
	}
	// A late word about a command of a sandbox that has ended.
	must(t, w.UpdateExec(ctx, w.command("x0", api.ExecExited)))
	if w.ahead.pending.Load() > 0 {
		t.Error("a row of a sandbox that has ended is pending")
	}
}

// TestAheadAdopted: the commands of a sandbox that was taken over are stored ahead, too, but for those that ran before.
func TestAheadAdopted(t *testing.T) {
	w, ctx := newSharedDatabase(t), t.Context()
	must(t, w.InsertExec(ctx, w.command("before", api.ExecRunning)))
	must(t, w.EndOwner(ctx, w.owner, time.Now()))
	next, owner := openServerAhead(t, w.url, filepath.Join(t.TempDir(), "ahead")), api.NewOwnerID()
	must(t, w.Close())
	must(t, next.InsertOwner(ctx, store.Owner{ID: owner, StartedAt: time.Now()}))
	w.box.Owner = owner
	must(t, next.UpdateSandbox(ctx, w.box))
	w.DB = next
	w.held(t, func() {
		must(t, w.InsertExec(ctx, w.command("after", api.ExecRunning)))
		if got := w.ahead.pending.Load(); got != 1 {
			t.Errorf("%d rows are pending", got)
		}
	})
	must(t, w.UpdateExec(ctx, w.command("before", api.ExecExited)))
	must(t, w.UpdateExec(ctx, w.command("after", api.ExecExited)))
	must(t, w.ahead.flush(ctx))
	if got := w.commands(t); got["before"] != "exited" || got["after"] != "exited" {
		t.Errorf("commands are %v", got)
	}
}

// TestAheadSharedCut starts a node again with every part of its file that a death may have left: each row is whole or not there.
func TestAheadSharedCut(t *testing.T) {
	server := postgrestest.Start(t)
	w := newSharedWorld(t, server, server.URL(postgrestest.User, server.Database(t)))
	whole := w.held(t, func() {
		must(t, w.InsertExec(t.Context(), w.command("x", api.ExecRunning)))
		must(t, w.UpdateExec(t.Context(), w.command("x", api.ExecExited)))
	})
	must(t, w.Close())
	seen := map[string]bool{}
	for cut := 0; cut <= len(whole); cut += 1 + cut/len(w.ahead.header) {
		server.Exec(t, "test1", "DELETE FROM exec")
		must(t, os.WriteFile(w.file, whole[:cut], 0o600))
		must(t, openServerAhead(t, w.url, w.file).Close())
		seen[w.commands(t)["x"]] = true
	}
	must(t, os.WriteFile(w.file, whole, 0o600))
	must(t, openServerAhead(t, w.url, w.file).Close())
	seen[w.commands(t)["x"]] = true
	if want := map[string]bool{"": true, "running": true, "exited": true}; !maps.Equal(seen, want) {
		t.Errorf("the command was %v, want %v", seen, want)
	}
}

// TestAheadOfAnotherDatabase refuses a file with rows of another database, and leaves it alone.
func TestAheadOfAnotherDatabase(t *testing.T) {
	server := postgrestest.Start(t)
	w := newSharedWorld(t, server, server.URL(postgrestest.User, server.Database(t)))
	file := w.held(t, func() { must(t, w.InsertExec(t.Context(), w.command("x", api.ExecRunning))) })
	must(t, w.Close())
	must(t, os.WriteFile(w.file, file, 0o600))
	url := server.URL(postgrestest.User, server.Database(t))
	must(t, openServer(t, url).Close())
	_, err := OpenPostgres(t.Context(), Postgres{URL: url, KeyFile: sameKey(t), Ahead: w.file})
	if api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, api.HintOf(err))
	}
	if got, err := os.ReadFile(w.file); string(got) != string(file) {
		t.Errorf("it has %q, %v", got, err)
	}
}

// TestAheadInDoubt loses the message with the rows, or the answer to it: they are stored once, and in their last states.
func TestAheadInDoubt(t *testing.T) {
	server := postgrestest.Start(t)
	for _, answer := range []bool{false, true} {
		proxy := server.Proxy(t)
		w := newSharedWorld(t, server, proxy.URL(server.Database(t)))
		loss := &postgrestest.Loss{Text: "INSERT INTO exec", Answer: answer, Before: func() {
			// It becomes another one while nobody knows whether it is stored.
			must(t, w.UpdateExec(t.Context(), w.command("x", api.ExecExited)))
		}}
		proxy.Lose(loss)
		must(t, w.InsertExec(t.Context(), w.command("x", api.ExecRunning)))
		must(t, w.ahead.flush(t.Context()))
		<-loss.Done
		must(t, w.ahead.flush(t.Context()))
		if got := w.commands(t); got["x"] != "exited" || len(got) != 1 {
			t.Errorf("answer lost %v: commands are %v", answer, got)
		}
	}
}

// TestAheadOutage: commands begin and end while the server is away, and their rows are stored when it is back. So are those of an attempt that
// failed, whose result nobody knows.
func TestAheadOutage(t *testing.T) {
	server := postgrestest.Start(t)
	proxy := server.Proxy(t)
	w, ctx := newSharedWorld(t, server, proxy.URL(server.Database(t))), t.Context()
	w.write.outage.began = time.Now().Add(-maxOutage - time.Second) // each statement is tried once
	must(t, w.InsertExec(ctx, w.command("doubt", api.ExecRunning)))
	loss := &postgrestest.Loss{Text: "INSERT INTO exec", Answer: true, Before: func() { w.write.outage.began = time.Now().Add(-maxOutage - time.Second) }}
	proxy.Lose(loss)
	proxy.Hold()
	failed := make(chan error)
	go func() { failed <- w.ahead.flush(ctx) }()
	until(t, "the rows are on their way", func() bool { return proxy.Waiting() > 0 })
	proxy.Release()
	<-loss.Done
	proxy.To(nil)
	if err := <-failed; api.KindOf(err) != api.KindUnavailable {
		t.Fatalf("flush: %v", err)
	}
	must(t, w.UpdateExec(ctx, w.command("doubt", api.ExecExited)))
	must(t, w.InsertExec(ctx, w.command("short", api.ExecRunning)))
	must(t, w.UpdateExec(ctx, w.command("short", api.ExecExited)))
	if _, err := w.Exec(ctx, "short"); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a read: %v", err)
	}
	proxy.To(server)
	until(t, "the rows are stored", func() bool { return w.ahead.pending.Load() == 0 })
	if got, want := w.commands(t), map[string]string{"doubt": "exited", "short": "exited"}; !maps.Equal(got, want) {
		t.Errorf("commands are %v, want %v", got, want)
	}
}

// TestAheadOnFullDisk: the disk of the node is not that of the database.
func TestAheadOnFullDisk(t *testing.T) {
	dir := smallDisk(t, "64k")
	w, ctx := newSharedDatabase(t), t.Context()
	must(t, w.Close())
	w.DB = openServerAhead(t, w.url, filepath.Join(dir, "ahead"))
	defer w.Close() // before the disk is taken away
	w.ahead.addOwner(w.owner)
	must(t, w.UpdateSandbox(ctx, w.box))
	must(t, w.InsertExec(ctx, w.command("x", api.ExecRunning)))
	fillDisk(t, filepath.Join(dir, "ballast"))
	long := w.command("x", api.ExecExited)
	long.Dir = strings.Repeat("long", 10_000)
	must(t, w.UpdateExec(ctx, long))
	if got := w.commands(t); got["x"] != "exited" {
		t.Errorf("commands are %v", got)
	}
}
