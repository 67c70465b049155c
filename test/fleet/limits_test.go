package fleet

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestLimits counts what a fleet costs its database, in transactions: a node that does nothing, the life of a sandbox, a command. Then it compares, in
// the same run, how many lives a second many simulated nodes store with how many transactions a second the server commits at all. docs/fleet.md
// has what follows.
func TestLimits(t *testing.T) {
	tier.Soak(t)
	server := postgrestest.Start(t, "fsync=on", "full_page_writes=on", "max_connections=200")
	b := base{store: daemon.Store{URL: server.URL(postgrestest.User, server.Database(t))}, key: make([]byte, 32)}
	pool, err := sql.Open("pgx", b.store.URL)
	world.OK(t, err)
	defer pool.Close()
	committed := func() (n int) {
		t.Helper()
		// A connection reports what it has done within ten seconds after it became idle.
		time.Sleep(11 * time.Second)
		world.OK(t, pool.QueryRowContext(t.Context(), "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
		return n
	}
	all := b.open(t, 2)

	// What nodes do by themselves, per second and node.
	began, before := time.Now(), committed()
	time.Sleep(20 * time.Second)
	after := committed()
	idle := float64(after-before) / time.Since(began).Seconds()
	// Lives, minus what would have happened anyway. Both nodes are asked, and have their part of the sandboxes.
	cost := func(n int, do func(i int)) float64 {
		began, before := time.Now(), committed()
		for i := range n {
			do(i)
		}
		after := committed()
		return (float64(after-before) - idle*time.Since(began).Seconds()) / float64(n)
	}
	ctx := t.Context()
	create := func(i int) *world.World { return all[i%2] }
	life := cost(40, func(i int) {
		s := world.Must(create(i).Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(t)
		world.Must(world.Sh(t, s, "true"))(t)
		world.Must(s.Kill(ctx))(t)
		s.Close()
	})
	s := world.Must(all[0].Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"}))(t)
	command := cost(100, func(int) { world.Must(world.Sh(t, s, "true"))(t) })
	read := cost(100, func(int) { world.Must(s.Info(ctx))(t) })
	world.Must(s.Kill(ctx))(t)
	s.Close()
	t.Logf("transactions: %.1f a second of an idle node, %.1f for the life of a sandbox with one command, %.1f for a command, %.1f for a read of a record",
		idle/2, life, command, read)
	if idle/2 > 20 || life > 60 || command > 20 {
		t.Error("more than docs/fleet.md says")
	}
	for _, w := range all {
		w.Stop()
	}

	// How many transactions of one small row the server commits, on as many connections as the simulated nodes have.
	const nodes, connections = 16, 4
	world.OK(t, execute(ctx, pool, "CREATE TABLE floor (id bigserial, value text)"))
	floor := perSecond(t, nodes*connections, func(context.Context, int) error {
		return execute(ctx, pool, "INSERT INTO floor (value) VALUES ('a row of a few bytes')")
	})

	// Simulated nodes: their own pools, renewals as often as real ones, and lives as fast as the server stores them.
	var renewing sync.WaitGroup
	stop := make(chan struct{})
	var dbs []*database.DB
	var owners []api.OwnerID
	var late sync.Map
	for i := range nodes {
		db, err := database.OpenPostgres(ctx, database.Postgres{URL: b.store.URL, KeyFile: filepath.Join(all[0].Config.DataDir, "hortus.db-key"), Connections: connections + 1})
		world.OK(t, err)
		defer db.Close()
		owner, node := api.NewOwnerID(), api.NodeID("sim"+strconv.Itoa(i))
		world.OK(t, db.InsertOwner(ctx, store.Owner{ID: owner, StartedAt: time.Now()}))
		world.OK(t, db.PutNode(ctx, store.Node{ID: node, Name: string(node), Owner: owner, State: api.NodeReady}))
		dbs, owners = append(dbs, db), append(owners, owner)
		renewing.Go(func() {
			for tick := time.NewTicker(3 * time.Second); ; {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				began := time.Now()
				if _, err := db.BeatNode(ctx, node, owner, api.NodeCapacity{}); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > fleet.Lease/2 {
					late.Store(i, took)
				}
			}
		})
	}
	var mu sync.Mutex
	var times []time.Duration
	lives := perSecond(t, nodes*connections, func(ctx context.Context, i int) error {
		began := time.Now()
		err := simulate(ctx, dbs[i%nodes], owners[i%nodes], int(life+0.5))
		mu.Lock()
		times = append(times, time.Since(began))
		mu.Unlock()
		return err
	})
	close(stop)
	renewing.Wait()
	slices.Sort(times)
	t.Logf("%d nodes with %d connections: %.0f transactions a second of one row (floor), %.1f lives a second, which is %.2f of the floor; a life takes %s (median), %s (p99)",
		nodes, nodes*connections, floor, lives, lives*life/floor, times[len(times)/2].Round(time.Millisecond), times[len(times)*99/100].Round(time.Millisecond))
	late.Range(func(i, took any) bool {
		t.Errorf("node %v renewed its lease after %v: the database lets nodes die under load", i, took)
		return true
	})
}

// execute runs a statement.
func execute(ctx context.Context, pool *sql.DB, statement string) error {
	_, err := pool.ExecContext(ctx, statement)
	return err
}

// perSecond calls do by workers for ten seconds, and returns how often a second.
func perSecond(t *testing.T, workers int, do func(ctx context.Context, worker int) error) float64 {
	t.Helper()
	const long = 10 * time.Second
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for i := range workers {
		wg.Go(func() {
			for time.Since(began) < long {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// simulate stores what the life of a sandbox with one command does, in as many transactions: its row, the command, and events.
func simulate(ctx context.Context, db *database.DB, owner api.OwnerID, transactions int) error {
	now := time.Now()
	box := api.Sandbox{ID: api.NewSandboxID(), Owner: owner, State: api.SandboxStarting, CreatedAt: now, Limits: api.DefaultLimits()}
	e := api.Exec{ID: api.NewExecID(), Sandbox: box.ID, Args: []string{"true"}, State: api.ExecRunning, StartedAt: now}
	steps := []func() error{
		func() error { return db.InsertSandbox(ctx, box) },
		func() error { box.State = api.SandboxRunning; return db.UpdateSandbox(ctx, box) },
		func() error { return db.InsertExec(ctx, e) },
		func() error { e.State, e.EndedAt = api.ExecExited, now; return db.UpdateExec(ctx, e) },
		func() error { box.State, box.EndedAt = api.SandboxEnded, now; return db.UpdateSandbox(ctx, box) },
	}
	for len(steps) < transactions {
		steps = append(steps, func() error {
			_, err := db.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(box.ID)}, api.EventOutput, now, []byte(`{"stdout":"a line of output"}`))
			return err
		})
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
