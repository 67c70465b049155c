package database

import (
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
)

// TestClock: the clock follows that of the server within what is known of it, and nothing but that.
func TestClock(t *testing.T) {
	start := time.Now()
	for name, tt := range map[string]struct {
		was, server time.Duration
		took        time.Duration // between the question and the answer
		low, high   time.Duration // where the clock must be afterwards
		set         bool
	}{
		"agrees":                    {0, 0, time.Second, 0, 0, false},
		"agrees, as far as it says": {300 * time.Millisecond, 0, time.Second, 300 * time.Millisecond, 300 * time.Millisecond, false},
		"slides":                    {0, time.Second / 2, time.Second / 10, time.Second / 2, time.Second/2 + time.Second/10, false},
		"is ahead":                  {0, time.Hour, time.Second, time.Hour, time.Hour + time.Second, true},
		"is behind":                 {0, -25 * time.Hour, time.Second, -25 * time.Hour, -25*time.Hour + time.Second, true},
	} {
		c := &clock{start: start, ahead: tt.was}
		sent := time.Now().Add(-tt.took)
		c.seen(time.Now().Add(tt.server).UnixMicro(), sent)
		const slack = time.Second / 20
		if c.ahead < tt.low-slack || c.ahead > tt.high+slack {
			t.Errorf("%s: %s ahead", name, c.ahead)
		}
		if steady := c.steady(time.Hour); steady == tt.set {
			t.Errorf("%s: steady is %v", name, steady)
		}
		if off := c.now().Round(0).Sub(time.Now().Round(0)) - c.ahead; off.Abs() > slack {
			t.Errorf("%s: the time is %s off", name, off)
		}
	}
}

// TestClockOfServerIsSet sets the clock of a server. No node that lives is found silent, a dead one is, and the one that leads can be followed.
func TestClockOfServerIsSet(t *testing.T) {
	lease := patience.Of(3 * time.Second)
	for name, by := range map[string]string{"an hour ahead": "3600000000", "an hour back": "-3600000000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := postgrestest.Start(t)
			ctx, db := t.Context(), openServer(t, server.URL(postgrestest.User, server.Database(t)))
			join := func(name string) (api.NodeID, api.OwnerID) {
				n, id := api.NewNodeID(), api.NewOwnerID()
				must(t, db.InsertOwner(ctx, store.Owner{ID: id, Host: "h", LockPath: "/" + name, StartedAt: db.Now(), Node: n}))
				must(t, db.PutNode(ctx, store.Node{ID: n, Name: name, Owner: id, State: api.NodeReady}))
				must(t, db.InsertSandbox(ctx, api.Sandbox{ID: api.NewSandboxID(), Owner: id, State: api.SandboxRunning, CreatedAt: db.Now()}))
				return n, id
			}
			node, self := join("self")
			other, lives := join("lives")
			_, dead := join("dead")
			if leads, err := db.Lead(ctx, "webhooks", dead, lease); err != nil || !leads {
				t.Fatal(leads, err)
			}
			before := db.Now()
			_, err := db.write.ExecContext(ctx, `CREATE OR REPLACE FUNCTION now_micros() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
				SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT + `+by+` $$`)
			must(t, err)
			// All seem silent, and one of them looks before the others have renewed their leases.
			inherits := func() map[api.OwnerID]bool {
				all, err := db.InheritOwners(ctx, self, lease, nil)
				must(t, err)
				out := map[api.OwnerID]bool{}
				for _, i := range all {
					out[i.Owner] = true
				}
				return out
			}
			if got := inherits(); len(got) > 0 {
				t.Fatalf("as the clock was set, the nodes of %v are found silent", got)
			}
			if set := db.Now().Round(0).Sub(before.Round(0)); set.Abs() < 50*time.Minute {
				t.Errorf("the clock of the database was set by %s", set)
			}
			renew := func() {
				_, err := db.BeatNode(ctx, node, self, api.NodeCapacity{})
				must(t, err)
				_, err = db.BeatNode(ctx, other, lives, api.NodeCapacity{})
				must(t, err)
			}
			for begun := time.Now(); ; time.Sleep(lease / 20) {
				renew()
				got := inherits()
				if got[lives] {
					t.Fatal("a node that renews its lease is found silent")
				}
				if got[dead] {
					if after := time.Since(begun); after < lease*9/10 {
						t.Errorf("a node is found silent %s after the clock was set", after)
					}
					break
				}
				if time.Since(begun) > patience.Of(time.Minute) {
					t.Fatal("a dead node is not found silent")
				}
			}
			if leads, err := db.Lead(ctx, "webhooks", self, lease); err != nil || !leads {
				t.Errorf("nobody follows a dead leader: %v, %v", leads, err)
			}
			if n, err := db.Node(ctx, node); err != nil || n.Silence > lease {
				t.Errorf("%+v, %v", n, err)
			}
		})
	}
}
