package database

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hortus.dev/internal/store"
	"hortus.dev/test/storetest"
)

// crashPath tells the test binary that it is the child of TestCrash.
const crashPathEnv = "HORTUS_TEST_STORE_CRASH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPathEnv); path != "" {
		fmt.Fprintln(os.Stderr, crashChild(path))
		os.Exit(3)
	}
	if path := os.Getenv(crashAhead); path != "" {
		fmt.Fprintln(os.Stderr, aheadChild(path))
		os.Exit(3)
	}
	if arg := os.Getenv(copyEnv); arg != "" {
		fmt.Fprintln(os.Stderr, copyChild(arg))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func openTest(t testing.TB, path string) *DB {
	t.Helper()
	db, err := OpenSQLite(t.Context(), SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newTest(t testing.TB) *DB { return openTest(t, filepath.Join(t.TempDir(), "hortus.db")) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return newTest(t) })
}

func crashChild(path string) error {
	db, err := OpenSQLite(context.Background(), SQLite{Path: path})
	if err != nil {
		return err
	}
	return storetest.AppendUntilKilled(db, os.Stdout)
}

func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hortus.db")
	storetest.Crash(t, func(t *testing.T) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashPathEnv+"="+path)
		return cmd
	}, func(t *testing.T) store.Store { return openTest(t, path) })
}

func FuzzFindTask(f *testing.F) {
	db := newTest(f)
	for _, seed := range []string{"", "t", "4f2a", "%", "_", "t%", "*", "?", "[t]", "\x00", "\xff", "t\xff", "'", "\\", "t4f2a000000000000000"} {
		f.Add(seed)
	}
	once := false
	f.Fuzz(func(t *testing.T, prefix string) {
		if !once {
			storetest.InsertFindTasks(t, db)
			once = true
		}
		storetest.CheckFind(t, db, prefix)
	})
}
