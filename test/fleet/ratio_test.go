package fleet

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestRatios measures in one run what a sandbox from the pool and a command cost with rows in Postgres, compared with SQLite. The server is on this
// machine, behind a Unix socket. It waits for the disk at each commit ("postgres"), or not ("postgres-async", which is what SQLite does). The clock
// starts at the call of a client over the socket of the daemon, and stops at its result. It prints also what a wait for the disk
// costs, and what one row of a few bytes costs on each server: no create can be faster that answers when its row is stored. Commands wait for no server.
func TestRatios(t *testing.T) {
	tier.Soak(t)
	ctx := t.Context()
	names := []string{"sqlite", "postgres", "postgres-async"}
	var worlds []*world.World
	pools := make([]*sql.DB, len(names)) // nil for SQLite
	for i, name := range names {
		cfg := daemon.Config{Pool: 1}
		if name != "sqlite" {
			settings := []string{"fsync=on", "full_page_writes=on"}
			if name == "postgres-async" {
				settings = append(settings, "synchronous_commit=off")
			}
			server := postgrestest.Start(t, settings...)
			database := server.Database(t)
			pools[i] = world.Must(sql.Open("pgx", server.URL(postgrestest.User, server.Database(t))))(t) // the daemon's own has its tables alone
			defer pools[i].Close()
			world.OK(t, execute(ctx, pools[i], "CREATE TABLE floor (id bigserial, value text)"))
			b := base{store: daemon.Store{URL: server.URL(postgrestest.User, database)}, key: make([]byte, 32)}
			cfg.DataDir, cfg.Store, cfg.Fleet = b.dir(t), b.store, daemon.FleetConfig{Name: "a", Listen: "127.0.0.1:0"}
		}
		worlds = append(worlds, world.Open(t, world.Config{Config: cfg}))
	}
	type row struct{ create, command, first, second, end, floor []time.Duration }
	rows := make([]row, len(worlds))
	running := make([]*client.Sandbox, len(worlds))
	for i, w := range worlds {
		running[i] = world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "container"}))(t)
		defer running[i].Close()
	}
	var disk []time.Duration
	file := world.Must(os.Create(filepath.Join(t.TempDir(), "f")))(t)
	defer file.Close()
	const samples, warmUp = 200, 10
	for n := range samples + warmUp {
		for i := range worlds {
			i = (i + n) % len(worlds) // none is always the first
			w := worlds[i]
			world.OK(t, w.Sandboxes.Creator.AwaitWarm(ctx))
			before := time.Now()
			world.OK(t, running[i].Command(ctx, "true").Run())
			began := time.Now()
			s := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "container"}))(t)
			created := time.Now()
			world.OK(t, s.Command(ctx, "true").Run())
			first := time.Now()
			world.OK(t, s.Command(ctx, "true").Run())
			ran := time.Now()
			world.Must(s.Kill(ctx))(t)
			ended := time.Now()
			s.Close()
			if n < warmUp {
				continue
			}
			r := &rows[i]
			r.create, r.first = append(r.create, created.Sub(began)), append(r.first, first.Sub(began))
			r.command, r.second, r.end = append(r.command, began.Sub(before)), append(r.second, ran.Sub(first)), append(r.end, ended.Sub(ran))
			if pools[i] != nil {
				began := time.Now()
				world.OK(t, execute(ctx, pools[i], "INSERT INTO floor (value) VALUES ('a row of a few bytes')"))
				r.floor = append(r.floor, time.Since(began))
			}
		}
		began := time.Now()
		world.Must(file.WriteString("x"))(t)
		world.OK(t, file.Sync())
		disk = append(disk, time.Since(began))
	}
	at := func(all []time.Duration) (median, slow time.Duration) {
		slices.Sort(all)
		return all[len(all)/2].Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond)
	}
	median, slow := at(disk)
	t.Logf("a wait for the disk: %v, p99 %v", median, slow)
	sqlite, _ := at(rows[0].create)
	for i, r := range rows[1:] {
		floor, slow := at(r.floor)
		create, _ := at(r.create)
		extra := float64(create-sqlite) / float64(floor)
		t.Logf("%s: one row %v, p99 %v; a create takes %.2f of that more than with SQLite", names[i+1], floor, slow, extra)
		if extra > 3 {
			t.Errorf("a create waits for the database more than once with %s", names[i+1])
		}
	}
	const command = "command in a running sandbox"
	for what, of := range map[string]func(row) []time.Duration{
		"create from the pool":    func(r row) []time.Duration { return r.create },
		"create to first command": func(r row) []time.Duration { return r.first },
		command:                   func(r row) []time.Duration { return r.command },
		"second command":          func(r row) []time.Duration { return r.second },
		"kill":                    func(r row) []time.Duration { return r.end },
	} {
		floor, floorSlow := at(of(rows[0]))
		line := fmt.Sprintf("%s: sqlite %v, p99 %v", what, floor, floorSlow)
		for i, r := range rows[1:] {
			median, slow := at(of(r))
			if what == command && median > 2*floor {
				t.Errorf("a command takes %.2f times as long with %s: it waits for the database", float64(median)/float64(floor), names[i+1])
			}
			line += fmt.Sprintf("; %s %v (%.2fx), p99 %v (%.2fx)", names[i+1], median, float64(median)/float64(floor), slow, float64(slow)/float64(floorSlow))
		}
		t.Log(line)
	}
}
