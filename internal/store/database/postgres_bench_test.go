package database

import (
	"strconv"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/postgrestest"
)

// BenchmarkStores compares the databases in one run: what a daemon stores and reads for a sandbox, a command, an event and a
// step. Postgres is on this machine, behind a Unix socket, and waits for the disk at each commit ("postgres"), or not
// ("postgres-async", which is what SQLite does).
func BenchmarkStores(b *testing.B) {
	open := map[string]func(b *testing.B) *DB{
		"sqlite": func(b *testing.B) *DB { return newTest(b) },
		"postgres": func(b *testing.B) *DB {
			server := postgrestest.Start(b, "fsync=on", "full_page_writes=on")
			return openServer(b, server.URL(postgrestest.User, server.Database(b)))
		},
		"postgres-async": func(b *testing.B) *DB {
			server := postgrestest.Start(b, "fsync=on", "full_page_writes=on", "synchronous_commit=off")
			return openServer(b, server.URL(postgrestest.User, server.Database(b)))
		},
	}
	now := time.Now()
	for _, name := range []string{"sqlite", "postgres", "postgres-async"} {
		db := open[name](b)
		ctx := b.Context()
		box := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: now, Env: map[string]string{"A": "b"}}
		owner := api.NewOwnerID()
		run := store.Run{ID: "r", Kind: "k", Owner: owner, CreatedAt: now}
		for _, err := range []error{db.InsertSandbox(ctx, box), db.InsertOwner(ctx, store.Owner{ID: owner, StartedAt: now}), db.InsertRun(ctx, run)} {
			if err != nil {
				b.Fatal(err)
			}
		}
		n := 0
		for _, op := range []struct {
			name string
			run  func() error
		}{
			{"InsertSandbox", func() error {
				return db.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: now})
			}},
			{"UpdateSandbox", func() error { return db.UpdateSandbox(ctx, box) }},
			{"ReadSandbox", func() error { _, err := db.Sandbox(ctx, box.ID); return err }},
			{"InsertAndEndExec", func() error {
				e := api.Exec{ID: api.NewExecID(), Sandbox: box.ID, State: api.ExecRunning, StartedAt: now}
				if err := db.InsertExec(ctx, e); err != nil {
					return err
				}
				e.State, e.EndedAt = api.ExecExited, now
				return db.UpdateExec(ctx, e)
			}},
			{"AppendEvent", func() error {
				_, err := db.AppendEvent(ctx, stream, api.EventOutput, now, benchData)
				return err
			}},
			{"BeginStep", func() error {
				n++
				_, err := db.BeginStep(ctx, "r", owner, store.RunStep{Name: strconv.Itoa(n), StartedAt: now})
				return err
			}},
		} {
			b.Run(name+"/"+op.name, func(b *testing.B) {
				for b.Loop() {
					if err := op.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
