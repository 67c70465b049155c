package provision

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
)

// sandboxTable keeps sandboxes as access to a manager would: a user sees the account's own.
type sandboxTable struct {
	mu    sync.Mutex
	all   []api.Sandbox // the newest first
	gate  chan struct{} // holds Create up
	fails error
}

func (b *sandboxTable) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return api.Sandbox{}, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails != nil {
		return api.Sandbox{}, b.fails
	}
	s := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Account: req.Account, Provision: req.Provision, Env: req.Env, Template: req.Template}
	b.all = slices.Insert(b.all, 0, s)
	return s, nil
}

func (b *sandboxTable) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.all {
		if s.ID == id && api.PrincipalOf(ctx).May(s.Account) {
			return s, nil
		}
	}
	return api.Sandbox{}, api.Errorf(api.KindNotFound, "there is no sandbox %s", id)
}

func (b *sandboxTable) Provisioned(ctx context.Context, task string, ended bool) (api.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.all {
		if s.Provision != nil && s.Provision.TaskID == task && s.Account == api.PrincipalOf(ctx).Account && (ended || !s.State.Final()) {
			return s, nil
		}
	}
	return api.Sandbox{}, api.Errorf(api.KindNotFound, "there is no provisioned sandbox %q", task)
}

func (b *sandboxTable) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	if _, err := b.Get(ctx, id); err != nil {
		return api.Sandbox{}, api.Proof{}, err
	}
	b.set(id, api.SandboxEnded)
	s, err := b.Get(ctx, id)
	return s, api.Proof{How: "test"}, err
}

func (b *sandboxTable) set(id api.SandboxID, state api.SandboxState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.all, func(s api.Sandbox) bool { return s.ID == id })
	b.all[i].State = state
}

func as(t *testing.T, account string) context.Context {
	if account == "" {
		return api.WithPrincipal(t.Context(), api.Operator())
	}
	return api.WithPrincipal(t.Context(), api.Principal{Role: api.RoleUser, Account: account})
}

func service(t *testing.T, b *sandboxTable) *Service {
	s := New(Config{Sandboxes: b})
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func TestProvision(t *testing.T) {
	b := &sandboxTable{}
	s := service(t, b)
	a := as(t, "a")
	req := api.ProvisionRequest{TaskID: "agent-1", TTLSeconds: 600, EnvVars: map[string]string{"A": "b"}}
	first, made, err := s.Provision(a, req)
	if err != nil || !made || first.Provision.ImageID != api.HostTemplate {
		t.Fatalf("%+v, made %v, %v", first, made, err)
	}
	again, made, err := s.Provision(a, req)
	if err != nil || made || again.ID != first.ID {
		t.Errorf("again: %s, made %v, %v", again.ID, made, err)
	}
	for what, change := range map[string]func(*api.ProvisionRequest){
		"imageId":    func(r *api.ProvisionRequest) { r.ImageID = "py" },
		"ttlSeconds": func(r *api.ProvisionRequest) { r.TTLSeconds = 0 },
		"envVars":    func(r *api.ProvisionRequest) { r.EnvVars = nil },
	} {
		other := req
		change(&other)
		if _, _, err := s.Provision(a, other); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), what) || api.HintOf(err) == "" {
			t.Errorf("another %s: %v", what, err)
		}
	}
	// The same task of another account is another task, of the operator's too.
	for _, account := range []string{"b", ""} {
		if got, made, err := s.Provision(as(t, account), req); err != nil || !made || got.ID == first.ID || got.Account != account {
			t.Errorf("account %q: %s, made %v, %v", account, got.ID, made, err)
		}
	}
	for _, name := range []string{"agent-1", string(first.ID)} {
		if got, err := s.Find(a, name); err != nil || got.ID != first.ID {
			t.Errorf("%s: %s, %v", name, got.ID, err)
		}
		if got, err := s.Wait(a, name, time.Minute); err != nil || got.ID != first.ID {
			t.Errorf("wait for %s: %s, %v", name, got.ID, err)
		}
	}
	never, err := s.Find(as(t, "b"), string(api.NewSandboxID()))
	others, err2 := s.Find(as(t, "b"), string(first.ID))
	if api.KindOf(err) != api.KindNotFound || api.KindOf(err2) != api.KindNotFound || never.ID != others.ID ||
		len(err.Error()) != len(err2.Error()) {
		t.Errorf("one that never was: %v; another's: %v", err, err2)
	}
	if _, _, err := s.Destroy(as(t, "b"), string(first.ID)); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another's is destroyed: %v", err)
	}

	// Ended, it is still found; the task's next one is a new one, which may differ.
	if got, proof, err := s.Destroy(a, "agent-1"); err != nil || got.ID != first.ID || proof.How == "" {
		t.Errorf("destroy: %+v %+v, %v", got, proof, err)
	}
	if got, err := s.Find(a, "agent-1"); err != nil || got.State != api.SandboxEnded {
		t.Errorf("after its end: %+v, %v", got, err)
	}
	if _, err := s.Wait(a, "agent-1", time.Minute); api.KindOf(err) != api.KindConflict {
		t.Errorf("wait after its end: %v", err)
	}
	next, made, err := s.Provision(a, api.ProvisionRequest{TaskID: "agent-1"})
	if err != nil || !made || next.ID == first.ID {
		t.Errorf("the next: %s, made %v, %v", next.ID, made, err)
	}
	if got, err := s.Find(a, "agent-1"); err != nil || got.ID != next.ID {
		t.Errorf("the task's now: %s, %v", got.ID, err)
	}
}

func TestRefused(t *testing.T) {
	b := &sandboxTable{}
	s := service(t, b)
	for want, req := range map[string]api.ProvisionRequest{
		`taskId ""`:       {},
		`taskId "../x"`:   {TaskID: "../x"},
		`taskId "-a"`:     {TaskID: "-a"},
		`taskId "a b"`:    {TaskID: "a b"},
		`taskId "a/b"`:    {TaskID: "a/b"},
		`taskId "i0`:      {TaskID: "i0000000000000000000"},
		`taskId "xxxxxxx`: {TaskID: strings.Repeat("x", 129)},
		`ttlSeconds is`:   {TaskID: "a", TTLSeconds: -1},
		`use 1 to 86400`:  {TaskID: "a", TTLSeconds: 86401},
	} {
		if _, _, err := s.Provision(as(t, "a"), req); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", req, err, want)
		}
	}
	b.fails = api.Errorf(api.KindNotFound, "there is no template nosuch")
	_, _, err := s.Provision(as(t, "a"), api.ProvisionRequest{TaskID: "a", ImageID: "nosuch"})
	if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), `imageId "nosuch"`) || api.HintOf(err) == "" {
		t.Errorf("a wrong image: %v", err)
	}
	if len(b.all) != 0 {
		t.Errorf("%d sandboxes", len(b.all))
	}
}

// TestConcurrent has many ask for one task at once, and the first of them go away.
func TestConcurrent(t *testing.T) {
	b := &sandboxTable{gate: make(chan struct{})}
	s := service(t, b)
	req := api.ProvisionRequest{TaskID: "a"}
	gone, leave := context.WithCancel(as(t, "a"))
	left := make(chan error)
	go func() {
		_, _, err := s.Provision(gone, req)
		left <- err
	}()
	for s.flight(as(t, "a"), "a") == nil {
		time.Sleep(time.Millisecond) // until the making has begun
	}
	leave()
	if err := <-left; api.KindOf(err) != api.KindCanceled {
		t.Errorf("whoever went away: %v", err)
	}
	if _, err := s.Wait(as(t, "a"), "a", time.Millisecond); api.KindOf(err) != api.KindTimeout || !strings.Contains(err.Error(), "1ms") {
		t.Errorf("a wait that is too short: %v", err)
	}
	if _, _, err := s.Provision(as(t, "a"), api.ProvisionRequest{TaskID: "a", ImageID: "other"}); api.KindOf(err) != api.KindConflict {
		t.Errorf("another request meanwhile: %v", err)
	}
	ids := make(chan api.SandboxID, 16)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, made, err := s.Provision(as(t, "a"), req)
			if err != nil || made { // by the one that went away
				t.Errorf("made %v, %v", made, err)
			}
			ids <- got.ID
		})
		wg.Go(func() {
			got, err := s.Wait(as(t, "a"), "a", time.Minute)
			if err != nil {
				t.Error(err)
			}
			ids <- got.ID
		})
	}
	close(b.gate)
	wg.Wait()
	for range 16 {
		if id := <-ids; len(b.all) != 1 || id != b.all[0].ID {
			t.Fatalf("%s of %d", id, len(b.all))
		}
	}
}

// TestWaitForStart waits for a sandbox that another daemon's life began, say.
func TestWaitForStart(t *testing.T) {
	b := &sandboxTable{}
	s := service(t, b)
	got, _, err := s.Provision(as(t, "a"), api.ProvisionRequest{TaskID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	b.set(got.ID, api.SandboxStarting)
	if _, err := s.Wait(as(t, "a"), "a", time.Millisecond); api.KindOf(err) != api.KindTimeout {
		t.Errorf("it does not start: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Wait(as(t, "a"), "a", time.Minute)
		done <- err
	}()
	b.set(got.ID, api.SandboxRunning)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Provision(as(t, "a"), api.ProvisionRequest{TaskID: "b"}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("after Close: %v", err)
	}
}

// TestClose ends what is being made.
func TestClose(t *testing.T) {
	b := &sandboxTable{gate: make(chan struct{})}
	s := New(Config{Sandboxes: b})
	failed := make(chan error)
	go func() {
		_, _, err := s.Provision(as(t, "a"), api.ProvisionRequest{TaskID: "a"})
		failed <- err
	}()
	for s.flight(as(t, "a"), "a") == nil {
		time.Sleep(time.Millisecond) // until the making has begun
	}
	s.Close(t.Context())
	if err := <-failed; api.KindOf(err) != api.KindCanceled {
		t.Errorf("%v", err)
	}
}

func FuzzTaskID(f *testing.F) {
	for _, s := range []string{"agent-abc123", "", ".", "..", "a/b", "a\x00", "é", "i0000000000000000000", "A:1_2.3-4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !api.ValidTaskID(s) {
			return
		}
		if len(s) > api.MaxTaskID || strings.ContainsAny(s, "/\\ %?#\x00") || s[0] == '.' || strings.ToValidUTF8(s, "") != s || api.SandboxID(s).Valid() {
			t.Fatalf("%q is taken", s)
		}
	})
}
