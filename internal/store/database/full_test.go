package database

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// smallDisk mounts a file system of a size for the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+size); err != nil {
		t.Skipf("a file system of %s cannot be mounted here: %v", size, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk writes a file until its disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReserve: on a full disk, whatever ends or removes something and whatever reads works, whatever
// adds something is refused, and all works again when the disk has space. A daemon that starts on a
// full disk registers.
func TestReserve(t *testing.T) {
	dir := smallDisk(t, "6m")
	cfg := SQLite{Path: filepath.Join(dir, "hortus.db"), Ahead: true, Reserve: 1 << 20}
	open := func() *DB {
		t.Helper()
		db, err := OpenSQLite(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	ctx, now := t.Context(), time.Now()
	owner := api.NewOwnerID()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(db.InsertOwner(ctx, store.Owner{ID: owner, StartedAt: now}))
	sandbox := api.Sandbox{ID: api.NewSandboxID(), Owner: owner, State: api.SandboxRunning, CreatedAt: now}
	ok(db.InsertSandbox(ctx, sandbox))
	// A row that grows: no page of the database that is there already has space for it.
	snap := api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: now}
	ok(db.InsertSnapshot(ctx, snap))
	if got := allocated(t, cfg.Path+reserveSuffix); got != cfg.Reserve {
		t.Fatalf("the reserve has %d bytes, want %d", got, cfg.Reserve)
	}
	filler := filepath.Join(dir, "filler")
	fillDisk(t, filler)

	snap.State, snap.EndedAt, snap.Reason = api.SnapshotRemoved, now, strings.Repeat("long ", 10_000)
	ok(db.UpdateSnapshot(ctx, snap))
	sandbox.State, sandbox.EndedAt = api.SandboxEnded, now
	ok(db.UpdateSandbox(ctx, sandbox))
	if got, err := db.Sandbox(ctx, sandbox.ID); err != nil || got.State != api.SandboxEnded {
		t.Errorf("the sandbox is %q, %v", got.State, err)
	}
	ok(db.BeatOwner(ctx, owner, now))
	_, err := db.Prune(ctx, store.Retention{Rows: 1, Execs: 1, Decisions: 1, Bytes: 1})
	ok(err)
	for name, err := range map[string]error{
		"snapshot": db.InsertSnapshot(ctx, api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: now}),
		"sandbox":  db.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), Owner: owner, State: api.SandboxRunning, CreatedAt: now}),
	} {
		if api.KindOf(err) != api.KindExhausted || !strings.Contains(api.HintOf(err), "hortus gc") {
			t.Errorf("insert of a %s on a full disk: %v (%s)", name, err, api.HintOf(err))
		}
	}
	if _, err := db.AppendEvent(ctx, stream, api.EventOutput, now, nil); api.KindOf(err) != api.KindExhausted {
		t.Errorf("an event of output on a full disk: %v", err)
	}
	ok(db.EndOwner(ctx, owner, now))
	ok(db.Close())

	// The next daemon finds the disk full.
	fillDisk(t, filepath.Join(dir, "more"))
	db = open()
	defer db.Close()
	ok(db.InsertOwner(ctx, store.Owner{ID: api.NewOwnerID(), StartedAt: now}))
	if _, err := db.ListSandboxes(ctx, true); err != nil {
		t.Error(err)
	}
	for _, name := range []string{filler, filepath.Join(dir, "more")} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	ok(db.InsertSnapshot(ctx, api.Snapshot{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: now}))
	if got := allocated(t, cfg.Path+reserveSuffix); got != cfg.Reserve {
		t.Errorf("the reserve has %d bytes on a disk with space, want %d", got, cfg.Reserve)
	}
}

// allocated returns the bytes that a file has on its disk.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestDiskFull fills a small file system: an append that the disk had no space
// for is an error, and what was confirmed before is there.
func TestDiskFull(t *testing.T) {
	db := openTest(t, filepath.Join(smallDisk(t, "1m"), "hortus.db"))
	data := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 3000)...), '"')
	confirmed := int64(0)
	for {
		seq, err := db.AppendEvent(t.Context(), stream, api.EventOutput, time.Now(), data)
		if err != nil {
			if api.KindOf(err) != api.KindExhausted || api.HintOf(err) == "" {
				t.Errorf("%v: kind %s, hint %q", err, api.KindOf(err), api.HintOf(err))
			}
			break
		}
		if confirmed++; seq != confirmed {
			t.Fatalf("number %d, want %d", seq, confirmed)
		}
		if confirmed > 1000 {
			t.Fatal("3 MB fit into 1 MiB")
		}
	}
	n := int64(0)
	for {
		page, err := db.ReadEvents(t.Context(), stream, n, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if n++; e.Seq != n || !bytes.Equal(e.Data, data) {
				t.Fatalf("event %d is number %d with %d bytes", n, e.Seq, len(e.Data))
			}
		}
	}
	if n != confirmed || n == 0 {
		t.Errorf("%d events are stored, %d were confirmed", n, confirmed)
	}
}

// TestReplayOnFullDisk: rows of an earlier daemon that need the reserve are stored all the same, all of them.
func TestReplayOnFullDisk(t *testing.T) {
	dir := smallDisk(t, "6m")
	cfg := SQLite{Path: filepath.Join(dir, "hortus.db"), Ahead: true, Reserve: 2 << 20}
	db, err := OpenSQLite(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	db.ahead.applying.Lock()
	must(t, db.InsertSandbox(t.Context(), box1(api.SandboxRunning)))
	const commands = 30
	for i := range commands {
		e := cmd1(api.ExecRunning)
		e.ID, e.Dir = api.ExecID(rune('a'+i)), strings.Repeat("long", 5000)
		must(t, db.InsertExec(t.Context(), e))
	}
	file, err := os.ReadFile(cfg.Path + aheadSuffix)
	must(t, err)
	db.ahead.mu.Lock() // what the process had in memory is lost
	db.ahead.queue, db.ahead.position = nil, map[rowKey]int{}
	db.ahead.mu.Unlock()
	db.ahead.applying.Unlock()
	must(t, db.Close())
	must(t, os.WriteFile(cfg.Path+aheadSuffix, file, 0o600))
	fillDisk(t, filepath.Join(dir, "ballast"))
	db, err = OpenSQLite(t.Context(), cfg)
	must(t, err)
	defer db.Close()
	all, err := db.ListExecs(t.Context(), box1(api.SandboxRunning).ID)
	if err != nil || len(all) != commands {
		t.Errorf("%d of %d commands are there, %v", len(all), commands, err)
	}
	if held := db.reserve.held.Load(); held == cfg.Reserve {
		t.Error("the reserve was not needed")
	}
}
