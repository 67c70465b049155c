package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestPostgres: a daemon whose rows are on a server runs a task and a sandbox, and the next one continues with both. Then the
// same with the rows that were copied from a file.
func TestPostgres(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	server := postgrestest.Start(t)
	on := func(database string) daemon.Store {
		return daemon.Store{URL: server.URL(postgrestest.User, database)}
	}
	used := func(w *world.World) (task api.Task, events []api.Event, box api.SandboxID) {
		t.Helper()
		task, events = world.RunTask(t, w.Client, api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers", Sandbox: api.CreateSandbox{Isolation: "process"}})
		if task.Outcome != api.OutcomeVerified {
			t.Fatalf("%+v", task)
		}
		s := world.Sandbox(t, w.Client, api.CreateSandbox{Isolation: "process"})
		if out, err := world.Sh(t, s, "echo one > file"); err != nil {
			t.Fatal(out, err)
		}
		return task, events, s.ID()
	}
	kept := func(w *world.World, task api.Task, events []api.Event, box api.SandboxID) {
		t.Helper()
		again, all := world.Follow(t, w.Client, task.ID)
		if again.Outcome != task.Outcome || len(all) != len(events) || len(all) == 0 || all[len(all)-1].Seq != int64(len(all)) {
			t.Errorf("the task is %s with %d events, it was %s with %d", again.Outcome, len(all), task.Outcome, len(events))
		}
		if row := world.Must(w.Client.Sandboxes.Get(t.Context(), string(box)))(t); row.ID() != box {
			t.Errorf("the sandbox is %s", row.ID())
		}
	}

	name := server.Database(t)
	w := world.Open(t, world.Config{Config: daemon.Config{Store: on(name)}})
	if d := world.Must(w.Client.Doctor(t.Context()))(t); !strings.HasPrefix(d.Store, "Postgres, database "+name) {
		t.Errorf("the report says that the store is %q", d.Store)
	}
	task, events, box := used(w)
	if _, err := os.Stat(w.Dir.Database()); err == nil {
		t.Error("there is a file with rows, too")
	}

	// Another daemon needs another name.
	other := filepath.Join(world.NewDir(t))
	world.OK(t, os.Mkdir(other, 0o700))
	key := world.Must(os.ReadFile(w.Dir.DatabaseKey()))(t)
	world.OK(t, os.WriteFile(filepath.Join(other, "hortus.db-key"), key, 0o600))
	err := world.Refuses(t, world.Config{Config: daemon.Config{DataDir: other, Store: on(name)}})
	if api.KindOf(err) != api.KindExists || !strings.Contains(api.HintOf(err), "fleet.name") {
		t.Errorf("a second daemon: %v", err)
	}
	w.Restart()
	kept(w, task, events, box)

	// The directory has no other rows than those: they would not know its workspaces.
	w.Stop()
	for _, wrong := range []daemon.Store{{}, on(server.Database(t))} {
		err := world.Refuses(t, world.Config{Config: daemon.Config{DataDir: w.Config.DataDir, Store: wrong}})
		if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "the rows of data directory") {
			t.Errorf("with the rows of %q: %v", wrong.URL, err)
		}
	}
}

// TestMigrateStore copies the rows of a daemon to a server, and the next daemon continues there.
func TestMigrateStore(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	server := postgrestest.Start(t)
	url := server.URL(postgrestest.User, server.Database(t))
	w := world.Open(t, world.Config{})
	w.Key("a", api.RoleUser)
	rows := map[string]int64{}
	migrate := func() error {
		_, err := daemon.MigrateStore(t.Context(), daemon.MigrateOptions{DataDir: w.Config.DataDir, To: url, Report: func(table string, n int64, verified bool) {
			if verified {
				rows[table] = n
			}
		}})
		return err
	}
	if err := migrate(); api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "hortus daemon stop") {
		t.Errorf("while a daemon runs: %v (%s)", err, api.HintOf(err))
	}
	w.Stop()
	// Rows that are not copied yet are not forgotten.
	err := world.Refuses(t, world.Config{Config: daemon.Config{DataDir: w.Config.DataDir, Store: daemon.Store{URL: url}}})
	if api.KindOf(err) != api.KindConflict || !strings.Contains(api.HintOf(err), "hortus store migrate") {
		t.Errorf("with rows in the file: %v (%s)", err, api.HintOf(err))
	}
	// A database that another daemon made: neither its key nor any other one is the way.
	used := server.URL(postgrestest.User, server.Database(t))
	other := world.Open(t, world.Config{Config: daemon.Config{Store: daemon.Store{URL: used}}})
	other.Stop()
	config := filepath.Join(t.TempDir(), "config.toml")
	for _, key := range []string{w.Dir.DatabaseKey(), other.Dir.DatabaseKey(), filepath.Join(t.TempDir(), "none")} {
		world.OK(t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nkey-file = %q\n", key), 0o600))
		_, err := daemon.MigrateStore(t.Context(), daemon.MigrateOptions{DataDir: w.Config.DataDir, ConfigFile: config, To: used, Report: func(string, int64, bool) {}})
		if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "already has rows of another installation") || !strings.Contains(api.HintOf(err), "use an empty database") {
			t.Errorf("to a used database, with key file %q: %v (%s)", key, err, api.HintOf(err))
		}
		if strings.HasSuffix(key, "none") {
			if _, err := os.Lstat(key); err == nil {
				t.Error("the key was copied for a database that is not used")
			}
		}
	}
	world.OK(t, migrate())
	if rows["api_key"] != 1 || rows["owner"] == 0 {
		t.Errorf("%v were copied", rows)
	}
	w.Config.Store = daemon.Store{URL: url}
	w.Restart()
	keys := world.Must(w.Client.Keys.List(t.Context(), false))(t)
	if len(keys) != 1 || keys[0].Account != "a" {
		t.Errorf("%+v", keys)
	}
}
