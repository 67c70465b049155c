package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/container"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/manager"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// pooled is a manager with a pool over the real backend and store.
type pooled struct {
	*manager.Manager
	run    string
	events *event.Log
	tick   func(time.Duration) // moves the manager's clock
}

// hostTemplate is the one template there is.
type hostTemplate struct{ digest layer.Digest }

func (h hostTemplate) Layers(context.Context, string) ([]layer.Digest, error) {
	return []layer.Digest{h.digest}, nil
}
func (h hostTemplate) Shows(d layer.Digest) (bool, error) { return d == h.digest, nil }

func newPooled(t *testing.T, size int) *pooled {
	t.Helper()
	dir := t.TempDir()
	layers, err := layer.New(layer.Config{Dir: layersDir, PackEntries: 1}) // packed where the host can
	if err != nil {
		t.Fatal(err)
	}
	tree, err := image.NewHost(image.Config{Store: layers, Home: os.Getenv("HOME"), Path: os.Getenv("PATH")}).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	b, err := container.New(container.Config{Dir: run, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := b.Probe(t.Context()).Has(api.CapStart); !ok {
		b.Close()
		t.Skipf("this host cannot run containers: %s; %s", a.Reason, a.Fix)
	}
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: filepath.Join(dir, "lock"), PID: os.Getpid(), StartedAt: time.Now()}
	if err := db.InsertOwner(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var ahead time.Duration
	p := &pooled{run: run, events: event.NewLog(event.Config{Store: db}), tick: func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ahead += d
	}}
	p.Manager = manager.New(manager.Config{
		Owner: owner.ID, Backends: []sandbox.Backend{b}, Templates: hostTemplate{tree.Digest}, Rows: db, Log: p.events, Pool: size,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		},
	})
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close the manager: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close the backend: %v", err)
		}
		if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
			t.Errorf("left in the run directory: %v, %v", left, err)
		}
		p.events.Close()
		db.Close()
	})
	return p
}

// full waits until the pool is full.
func (p *pooled) full(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Of(60*time.Second))
	defer cancel()
	if err := p.Creator.AwaitWarm(ctx); err != nil {
		ready, want := p.Creator.Warm()
		t.Fatalf("%d of %d guests are warm: %v", ready, want, err)
	}
}

// waiting lists the guests in the pool, by their run directories.
func (p *pooled) waiting(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	entries, err := os.ReadDir(p.run)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := p.Sandboxes.Get(t.Context(), api.SandboxID(e.Name())); err != nil && api.SandboxID(e.Name()).Valid() {
			out[e.Name()] = true
		}
	}
	return out
}

func (p *pooled) create(t *testing.T, req api.CreateSandbox) api.Sandbox {
	t.Helper()
	s, err := p.Creator.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sh runs a script in a sandbox and gives what it wrote.
func (p *pooled) sh(t *testing.T, id api.SandboxID, script string) string {
	t.Helper()
	s, err := p.Guests.StartExec(t.Context(), id, api.ExecRequest{Args: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	for {
		ev, err := s.Next()
		if err != nil {
			return out.String()
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
			out.Write(ev.Data.Stderr)
		}
	}
}

func TestPoolServesEachGuestOnce(t *testing.T) {
	tier.AnyUser(t)
	p := newPooled(t, 2)
	if err := p.Creator.KeepWarm(t.Context(), api.CreateSandbox{}); err != nil {
		t.Fatal(err)
	}
	seen := map[api.SandboxID]bool{}
	for i := range 6 {
		p.full(t)
		before := p.waiting(t)
		s := p.create(t, api.CreateSandbox{Env: map[string]string{"SECRET": "s3cret" + string(rune('0'+i))}})
		if !before[string(s.ID)] {
			t.Errorf("sandbox %s was booted when it was asked for; %v waited", s.ID, before)
		}
		if seen[s.ID] || s.State != api.SandboxRunning {
			t.Errorf("%+v", s)
		}
		seen[s.ID] = true
		if got := p.sh(t, s.ID, "echo $SECRET"); got != "s3cret"+string(rune('0'+i))+"\n" {
			t.Errorf("environment: %q", got)
		}
		if got := p.sh(t, s.ID, "ls -A /tmp /workspace /home/user; env | grep -c s3cret; touch /tmp/mine /workspace/mine; echo $((`ls -d /proc/[0-9]* | wc -l` < 6))"); got != "/home/user:\n\n/tmp:\n\n/workspace:\n1\n1\n" {
			t.Errorf("a fresh sandbox holds %q", got)
		}
		if row, err := p.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxRunning || !row.ExpiresAt.After(row.CreatedAt) {
			t.Errorf("%+v, %v", row, err)
		}
		if _, proof, err := p.Sandboxes.Kill(t.Context(), s.ID); err != nil || proof.Left != 0 {
			t.Errorf("%+v, %v", proof, err)
		}
		// The beginning and the end, in this order.
		var states []string
		evs, err := p.events.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(s.ID)}, 0, 100)
		for _, e := range evs {
			states = append(states, string(e.Data))
		}
		if err != nil || len(states) != 2 || !strings.Contains(states[0], "running") || !strings.Contains(states[1], "ended") {
			t.Errorf("events %q, %v", states, err)
		}
	}
}

// What was requested once is kept warm, with its limits; what nobody asks for any
// more is not.
func TestPoolLearnsKinds(t *testing.T) {
	tier.AnyUser(t)
	p := newPooled(t, 1)
	small := api.CreateSandbox{Limits: api.Limits{Processes: 70}}
	first := p.create(t, small)
	p.full(t)
	before := p.waiting(t)
	second := p.create(t, small)
	if !before[string(second.ID)] || before[string(first.ID)] {
		t.Errorf("%s, %s; %v waited", first.ID, second.ID, before)
	}
	if got := strings.TrimSpace(p.sh(t, second.ID, "for i in `seq 90`; do sleep 9 & done; echo all ninety")); !strings.Contains(got, "fork") {
		t.Errorf("ninety processes under a limit of seventy: %q", got)
	}
	// Another kind does not get this one's guests.
	p.full(t)
	before = p.waiting(t)
	if other := p.create(t, api.CreateSandbox{Limits: api.Limits{Processes: 90}}); before[string(other.ID)] {
		t.Errorf("%s is of another size", other.ID)
	}
	if _, want := p.Creator.Warm(); want != 2 {
		t.Errorf("%d guests are to be warm; want 2", want)
	}
	p.tick(time.Hour)
	until(t, "old kinds are dropped", func() bool {
		ready, want := p.Creator.Warm()
		return ready == 0 && want == 0
	})
}

// A guest that dies in the pool is nobody's loss.
func TestPoolSurvivesDeaths(t *testing.T) {
	tier.AnyUser(t)
	p := newPooled(t, 2)
	if err := p.Creator.KeepWarm(t.Context(), api.CreateSandbox{}); err != nil {
		t.Fatal(err)
	}
	p.full(t)
	for range 5 {
		for id := range p.waiting(t) {
			if b, err := os.ReadFile(filepath.Join(p.run, id, "pid")); err == nil {
				var pid int
				for _, c := range b {
					if c < '0' || c > '9' {
						break
					}
					pid = 10*pid + int(c-'0')
				}
				if pid > 1 {
					syscall.Kill(pid, syscall.SIGKILL)
					until(t, "a killed guest is reaped", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
				}
			}
		}
		s := p.create(t, api.CreateSandbox{})
		if got := p.sh(t, s.ID, "echo lives"); got != "lives\n" {
			t.Errorf("%q", got)
		}
		if _, _, err := p.Sandboxes.Kill(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
	p.full(t)
}

// Many at once are all served, from the pool or not.
func TestPoolBurst(t *testing.T) {
	tier.AnyUser(t)
	p := newPooled(t, 3)
	if err := p.Creator.KeepWarm(t.Context(), api.CreateSandbox{}); err != nil {
		t.Fatal(err)
	}
	p.full(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[api.SandboxID]bool{}
	for range 12 {
		wg.Go(func() {
			s, err := p.Creator.Create(t.Context(), api.CreateSandbox{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[s.ID] {
				t.Errorf("%s was given twice", s.ID)
			}
			ids[s.ID] = true
		})
	}
	wg.Wait()
	for id := range ids {
		if got := p.sh(t, id, "echo lives"); got != "lives\n" {
			t.Errorf("%q", got)
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(wait.Of(60 * time.Second))
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
