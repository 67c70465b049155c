package database

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/storetest"
)

func openAheadTest(t testing.TB, path string) *DB {
	t.Helper()
	db, err := OpenSQLite(t.Context(), SQLite{Path: path, Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestStoreAhead holds a store that keeps rows ahead to the same suite.
func TestStoreAhead(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return openAheadTest(t, filepath.Join(t.TempDir(), "hortus.db"))
	})
}

// box1 and cmd1 are rows as a daemon writes them.
func box1(state api.SandboxState) api.Sandbox {
	return api.Sandbox{ID: "i000", State: state, CreatedAt: time.UnixMicro(1), Labels: map[string]string{"a": "b\xff"}}
}

func cmd1(state api.ExecState) api.Exec {
	return api.Exec{ID: "x000", Sandbox: "i000", State: state, StartedAt: time.UnixMicro(2), Args: []string{"true"}}
}

// life writes a sandbox's whole life.
func life(t *testing.T, db *DB) {
	t.Helper()
	for i, err := range []error{
		db.InsertSandbox(t.Context(), box1(api.SandboxRunning)), db.InsertExec(t.Context(), cmd1(api.ExecRunning)),
		db.UpdateExec(t.Context(), cmd1(api.ExecExited)), db.UpdateSandbox(t.Context(), box1(api.SandboxEnded)),
	} {
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
}

// TestAheadCut opens a database beside every part of what a process that died may
// have left of the file: each row is whole or not there, in the order of writing.
func TestAheadCut(t *testing.T) {
	first := filepath.Join(t.TempDir(), "hortus.db")
	db := openAheadTest(t, first)
	db.ahead.applying.Lock() // so that all of it is in the file alone
	life(t, db)
	whole, err := os.ReadFile(first + aheadSuffix)
	db.ahead.applying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	openTest(t, empty).Close()
	fresh, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for cut := 0; cut <= len(whole); cut += 1 + cut/len(aheadMagic) {
		path := filepath.Join(t.TempDir(), "hortus.db")
		for name, data := range map[string][]byte{path: fresh, path + aheadSuffix: whole[:cut]} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		db := openAheadTest(t, path)
		got := "nothing"
		if b, err := db.Sandbox(t.Context(), "i000"); err == nil {
			got = string(b.State)
			if b.Labels["a"] != "b\xff" {
				t.Errorf("cut at %d: %+v", cut, b)
			}
		}
		if e, err := db.Exec(t.Context(), "x000"); err == nil {
			got += " " + string(e.State)
		}
		seen[got] = true
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// The last cut may miss the end of the file; its whole is TestAheadKilled's.
	seen["ended exited"] = true
	want := map[string]bool{"nothing": true, "running": true, "running running": true, "running exited": true, "ended exited": true}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("rows were %v, want %v", seen, want)
	}
}

// TestAheadTwice replays a file whose rows the database has, as after a death
// between the commit and the emptying of the file.
func TestAheadTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	db := openAheadTest(t, path)
	db.ahead.applying.Lock()
	life(t, db)
	file, err := os.ReadFile(path + aheadSuffix)
	db.ahead.applying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadFile(path + aheadSuffix); err != nil || len(left) > 0 {
			t.Errorf("after a close the file holds %q, %v", left, err)
		}
		if err := os.WriteFile(path+aheadSuffix, file, 0o600); err != nil {
			t.Fatal(err)
		}
		db = openAheadTest(t, path)
		all, err := db.ListSandboxes(t.Context(), true)
		if err != nil || len(all) != 1 || all[0].State != api.SandboxEnded {
			t.Errorf("%+v, %v", all, err)
		}
	}
}

// TestAheadOfAnotherVersion refuses a file that this version cannot read, and
// leaves it alone.
func TestAheadOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	const file = "hortus ahead 9\nwhatever"
	if err := os.WriteFile(path+aheadSuffix, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenSQLite(t.Context(), SQLite{Path: path, Ahead: true})
	if api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, api.HintOf(err))
	}
	if got, err := os.ReadFile(path + aheadSuffix); string(got) != file {
		t.Errorf("it holds %q, %v", got, err)
	}
}

// TestAheadParentOfEvent appends an event of a sandbox whose row waits: it is
// filed under the sandbox's task all the same.
func TestAheadParentOfEvent(t *testing.T) {
	db := openAheadTest(t, filepath.Join(t.TempDir(), "hortus.db"))
	for _, ends := range []bool{false, true} {
		b := box1(api.SandboxRunning)
		b.ID, b.Task = api.NewSandboxID(), api.NewTaskID()
		db.ahead.applying.Lock()
		err := db.InsertSandbox(t.Context(), b)
		if err == nil && ends {
			b.State = api.SandboxEnded
			err = db.UpdateSandbox(t.Context(), b)
		}
		if err == nil {
			_, err = db.AppendEvent(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(b.ID)}, api.EventSandboxState, time.Now(), nil)
		}
		db.ahead.applying.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		var parent sql.NullString
		if err := db.read.QueryRowContext(t.Context(), `SELECT parent FROM event WHERE stream_id = ?`, string(b.ID)).Scan(&parent); err != nil || parent.String != string(b.Task) {
			t.Errorf("ended %v: the event's parent is %q, not %q; %v", ends, parent.String, b.Task, err)
		}
	}
}

// TestAheadWithoutRest stores rows that never stop coming, and finds them in the
// database all the same, without a read that would have put them there.
func TestAheadWithoutRest(t *testing.T) {
	db := openAheadTest(t, filepath.Join(t.TempDir(), "hortus.db"))
	if err := db.InsertSandbox(t.Context(), box1(api.SandboxRunning)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(flushDelay / 5)
	defer tick.Stop()
	for range 500 * int(maxFlushDelay/flushDelay) { // a hundred times as long as a row may wait
		if err := db.UpdateSandbox(t.Context(), box1(api.SandboxPaused)); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.read.QueryRowContext(t.Context(), `SELECT count(*) FROM sandbox`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		<-tick.C
	}
	t.Fatal("a row waits for the end of those after it")
}

// TestAheadTwoProcesses refuses to share the file.
func TestAheadTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	db := openAheadTest(t, path)
	if _, err := OpenSQLite(t.Context(), SQLite{Path: path, Ahead: true}); api.KindOf(err) != api.KindConflict || api.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, api.HintOf(err))
	}
	life(t, db)
	if b, err := db.Sandbox(t.Context(), "i000"); err != nil || b.State != api.SandboxEnded {
		t.Errorf("the first one afterwards: %+v, %v", b, err)
	}
}

// TestAheadDiskFull fails a write in the file: its caller is told, nothing of it
// is found later, and what comes after it is.
func TestAheadDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=0700"); err != nil {
		t.Skipf("a file system of 4 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "hortus.db")
	db := openAheadTest(t, path)
	db.ahead.applying.Lock()
	if err := db.InsertSandbox(t.Context(), box1(api.SandboxRunning)); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("8 MiB fit into 4 MiB")
	}
	lost := box1(api.SandboxRunning)
	lost.ID, lost.Reason = "i111", strings.Repeat("long", 10_000)
	if err := db.InsertSandbox(t.Context(), lost); api.KindOf(err) != api.KindExhausted || api.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, api.HintOf(err))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := db.InsertExec(t.Context(), cmd1(api.ExecRunning)); err != nil {
		t.Error(err)
	}
	file, err := os.ReadFile(path + aheadSuffix)
	db.ahead.applying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+aheadSuffix, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db = openAheadTest(t, path)
	if _, err := db.Exec(t.Context(), "x000"); err != nil {
		t.Errorf("the row after: %v", err)
	}
	if _, err := db.Sandbox(t.Context(), lost.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("the row that failed: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// crashAhead tells the test binary that it is the child of TestAheadKilled.
const crashAhead = "HORTUS_TEST_STORE_AHEAD"

// aheadChild writes lives of sandboxes without end. It says what it is about to
// write, and then that it was told that it is stored. The database is that in a file,
// or the one at an address, with a file and a key.
func aheadChild(arg string) error {
	ctx := context.Background()
	var db *DB
	var err error
	if at := strings.Fields(arg); len(at) == 3 {
		db, err = OpenPostgres(ctx, Postgres{URL: at[0], Ahead: at[1], KeyFile: at[2]})
	} else {
		db, err = OpenSQLite(ctx, SQLite{Path: arg, Ahead: true})
	}
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range 4 {
		go func() {
			for {
				b := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: time.Now()}
				e := api.Exec{ID: api.NewExecID(), Sandbox: b.ID, State: api.ExecRunning, StartedAt: time.Now(), Args: []string{strings.Repeat("x", 3000)}}
				for _, step := range []struct {
					id, state string
					write     func() error
				}{
					{string(b.ID), "1 running", func() error { return db.InsertSandbox(ctx, b) }},
					{string(e.ID), "1 running", func() error { return db.InsertExec(ctx, e) }},
					{string(e.ID), "2 exited", func() error { e.State = api.ExecExited; return db.UpdateExec(ctx, e) }},
					{string(b.ID), "2 ended", func() error { b.State = api.SandboxEnded; return db.UpdateSandbox(ctx, b) }},
				} {
					fmt.Printf("begun %s %s\n", step.id, step.state)
					if err := step.write(); err != nil {
						errs <- err
						return
					}
					fmt.Printf("stored %s %s\n", step.id, step.state)
				}
			}
		}()
	}
	return <-errs
}

// TestAheadKilled kills a process in the middle of its writes, several times over
// one database: what was confirmed is there, in a state that is no older, and
// nothing is there that was not begun.
func TestAheadKilled(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hortus.db")
		testAheadKilled(t, path, path+aheadSuffix, func() *DB { return openAheadTest(t, path) })
	})
	t.Run("postgres", func(t *testing.T) {
		server := postgrestest.Start(t)
		url, path := server.URL(postgrestest.User, server.Database(t)), filepath.Join(t.TempDir(), "ahead")
		testAheadKilled(t, url+" "+path+" "+sameKey(t), path, func() *DB { return openServerAhead(t, url, path) })
	})
}

func testAheadKilled(t *testing.T, arg, file string, open func() *DB) {
	begun, stored := map[string]string{}, map[string]string{}
	for round := range 6 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashAhead+"="+arg)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if f := strings.Fields(lines.Text()); len(f) == 4 {
				into := begun
				if f[0] == "stored" {
					into = stored
				}
				into[f[1]] = f[2] + " " + f[3]
			}
			if n == 500+round*333 {
				cmd.Process.Kill()
			}
		}
		if err := cmd.Wait(); err == nil || complaint.Len() > 0 {
			t.Fatalf("the child ended: %v: %s", err, complaint.String())
		}
		left, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		db := open()
		found := map[string]string{}
		for b, err := range api.Pages(t.Context(), func(ctx context.Context, p api.PageRequest) ([]api.Sandbox, string, error) {
			return db.SandboxPage(ctx, "", true, p)
		}) {
			if err != nil {
				t.Fatal(err)
			}
			found[string(b.ID)] = map[bool]string{false: "1 ", true: "2 "}[b.State.Final()] + string(b.State)
			execs, err := db.ListExecs(t.Context(), b.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range execs {
				found[string(e.ID)] = map[bool]string{false: "1 ", true: "2 "}[e.State == api.ExecExited] + string(e.State)
			}
		}
		for id, state := range stored {
			if found[id] < state {
				t.Errorf("round %d: %s was stored as %q and is %q", round, id, state, found[id])
			}
		}
		for id, state := range found {
			if begun[id] < state {
				t.Errorf("round %d: %s is %q, and %q was begun", round, id, state, begun[id])
			}
		}
		t.Logf("round %d: %d rows confirmed, %d found, %d bytes were stored ahead of the database", round, len(stored), len(found), len(left))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	for _, r := range []record{
		{insertSandboxOp, []any{"i", nil, "running", nil, int64(-5), int64(1 << 60), nil, "{}\xff"}},
		{updateExecOp, []any{"x", "i", "exited", int64(0), nil, strings.Repeat("y", 300)}},
		{putExecOp, []any{"x", "i", "exited", int64(0), nil, "{}", "o"}},
	} {
		f.Add(r.append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, n, err := readRecord(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			if got := r.append(nil); int64(len(got)) > n {
				t.Errorf("%d bytes were read as %+v, which takes %d", n, r, len(got))
			}
		} else if err != io.EOF && err != errIncomplete && api.KindOf(err) != api.KindInternal {
			t.Errorf("%v", err)
		}
		if r, err := parseRecord(data); err == nil {
			again, err := parseRecord(r.append(nil)[recordHeader:])
			if err != nil || !slices.Equal(again.args, r.args) {
				t.Errorf("%+v was read again as %+v, %v", r, again, err)
			}
		}
	})
}

// BenchmarkExecRows stores the two rows of a command; the clock runs from the
// first call to the end of the second.
func BenchmarkExecRows(b *testing.B) {
	for _, ahead := range []bool{false, true} {
		b.Run(fmt.Sprintf("ahead=%v", ahead), func(b *testing.B) {
			db, err := OpenSQLite(b.Context(), SQLite{Path: filepath.Join(b.TempDir(), "hortus.db"), Ahead: ahead})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.InsertSandbox(b.Context(), box1(api.SandboxRunning)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e := cmd1(api.ExecRunning)
				e.ID = api.NewExecID()
				if err := db.InsertExec(b.Context(), e); err != nil {
					b.Fatal(err)
				}
				e.State = api.ExecExited
				if err := db.UpdateExec(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
