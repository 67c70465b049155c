package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/internal/task/repo"
)

// stage is a theater with one sandbox that is in use.
type stage struct {
	*theater
	of   repo.Sandbox
	work api.WorkspaceID
	p    repo.Preparation
}

func newStage(t *testing.T, isolation string) *stage {
	t.Helper()
	s := &stage{theater: newTheater(t)}
	s.host.isolation = isolation
	s.host.leases = map[api.SandboxID]*workspace.Lease{}
	s.p = repo.Preparation{Sandbox: s.sandbox, Access: []filerule.Access{{Path: "a", ReadOnly: true}}}
	var err error
	if s.work, err = s.plain(t.Context(), s.task, s.layers); err != nil {
		t.Fatal(err)
	}
	if s.of, err = s.Open(t.Context(), s.sandbox, s.work, nil); err != nil {
		t.Fatal(err)
	}
	s.left(1, s.work)
	return s
}

// service is one that cannot be started in a sandbox of a host, and is not ready there.
func service() []repo.Service {
	return []repo.Service{{Name: "db", Exec: api.ExecRequest{Args: []string{"db"}}, Ready: api.ExecRequest{Args: []string{"true"}}}}
}

// TestCopy: a copy has its own workspace, which belongs to the task, and is made in the way that the sandbox allows.
func TestCopy(t *testing.T) {
	for name, c := range map[string]struct {
		isolation string
		change    func(*stage)
		forked    bool
		stands    int
	}{
		"gvisor":           {"gvisor", func(*stage) {}, true, 0},
		"no forks here":    {"gvisor", func(s *stage) { s.cfg.Forker = nil }, false, 1},
		"forks refused":    {"gvisor", func(s *stage) { s.host.refuse = api.Errorf(api.KindUnsupported, "not this one") }, false, 1},
		"a child refused":  {"gvisor", func(s *stage) { s.host.child = api.Errorf(api.KindUnsupported, "not this one") }, false, 1},
		"container":        {"container", func(*stage) {}, false, 1},
		"another's labels": {"gvisor", func(s *stage) { s.p.Sandbox.Labels = map[string]string{"of": "copy"} }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.isolation)
			c.change(s)
			got, err := s.Copy(t.Context(), s.task, s.of, s.p)
			if err != nil {
				t.Fatal(err)
			}
			info := got.Info()
			_, serves := got.(repo.ServiceSandbox)
			w, err := s.host.spaces.Get(info.Workspace)
			if err != nil || w.Task != s.task || w.Parent != s.work || info.Task != s.task || info.Workspace == s.work || !serves {
				t.Errorf("%+v, %+v, %v, %t", info, w, err, serves)
			}
			if forked := info.Parent == s.of.Info().ID; forked != c.forked || s.host.stood != c.stands || s.host.still != 0 {
				t.Errorf("forked %t, stood still %d times, %d still do", forked, s.host.stood, s.host.still)
			}
			if c.forked {
				f := s.host.forks[0]
				if f.Count != 1 || f.TTLMS != 60_000 || f.Labels["of"] != s.p.Sandbox.Labels["of"] || !slices.Equal(f.Secrets, []string{"key"}) {
					t.Errorf("forked with %+v", f)
				}
			} else {
				made := s.host.made[len(s.host.made)-1]
				if made.req.TTLMS != 60_000 || made.req.Task != s.task || made.req.Labels["of"] != "test" || len(made.req.Secrets) != 1 || len(made.ws.Access) != 1 || !made.ws.Access[0].ReadOnly {
					t.Errorf("created with %+v", made)
				}
			}
			s.left(2, s.work, info.Workspace)
			if _, err := got.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Discard(t.Context(), info.Workspace); err != nil {
				t.Error(err)
			}
			s.left(1, s.work)
		})
	}
}

// TestCopyFails: an error at any step leaves nothing but the sandbox that was to be copied, which goes on.
func TestCopyFails(t *testing.T) {
	broken := api.Errorf(api.KindExhausted, "there are enough")
	for name, c := range map[string]struct {
		isolation string
		spoil     func(*stage)
		want      api.Kind
		hint      string
		gone      bool
	}{
		"the fork":                  {isolation: "gvisor", spoil: func(s *stage) { s.host.refuse = broken }, want: api.KindExhausted},
		"the child":                 {isolation: "gvisor", spoil: func(s *stage) { s.host.child = broken }, want: api.KindExhausted},
		"the time for a fork":       {isolation: "gvisor", spoil: func(s *stage) { s.host.wait, s.cfg.ForkTime = true, 1 }, want: api.KindTimeout},
		"the guest of a fork":       {isolation: "gvisor", spoil: func(s *stage) { s.host.noGuest = true }, want: api.KindUnavailable},
		"a service in a fork":       {isolation: "gvisor", spoil: func(s *stage) { s.p.Services = service() }, want: api.KindInternal},
		"both ways":                 {isolation: "gvisor", spoil: func(s *stage) { s.host.refuse, s.host.pause = api.Errorf(api.KindUnsupported, "no"), broken }, want: api.KindExhausted},
		"a pause":                   {isolation: "container", spoil: func(s *stage) { s.host.pause = api.Errorf(api.KindUnsupported, "no") }, want: api.KindUnsupported, hint: "hortus doctor"},
		"a pause that says why":     {isolation: "container", spoil: func(s *stage) { s.host.pause = api.Errorf(api.KindUnsupported, "no").WithHint("do it") }, want: api.KindUnsupported, hint: "do it"},
		"the copy":                  {isolation: "container", spoil: func(s *stage) { s.host.leases[s.of.Info().ID].Release() }, want: api.KindConflict},
		"going on":                  {isolation: "container", spoil: func(s *stage) { s.host.resume = broken }, want: api.KindExhausted},
		"going on, and the copy":    {isolation: "container", spoil: func(s *stage) { s.host.resume = broken; s.host.leases[s.of.Info().ID].Release() }, want: api.KindExhausted},
		"the sandbox":               {isolation: "container", spoil: func(s *stage) { s.host.create = broken }, want: api.KindExhausted},
		"the guest":                 {isolation: "container", spoil: func(s *stage) { s.host.noGuest = true }, want: api.KindUnavailable},
		"a service":                 {isolation: "container", spoil: func(s *stage) { s.p.Services = service() }, want: api.KindInternal},
		"one that has ended":        {isolation: "container", spoil: func(s *stage) { s.of.Close(context.Background()) }, want: api.KindUnavailable, gone: true},
		"one that has ended, fork":  {isolation: "gvisor", spoil: func(s *stage) { s.of.Close(context.Background()) }, want: api.KindUnavailable, gone: true},
		"one without its workspace": {isolation: "container", spoil: func(s *stage) { s.of = without{s.of} }, want: api.KindUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.isolation)
			c.spoil(s)
			got, err := s.Copy(t.Context(), s.task, s.of, s.p)
			if got != nil || api.KindOf(err) != c.want || !strings.Contains(api.HintOf(err), c.hint) {
				t.Errorf("%v, %v (%s), %q", got, err, api.KindOf(err), api.HintOf(err))
			}
			if told := strings.Contains(fmt.Sprint(err), "cannot be paused"); told != strings.HasPrefix(name, "a pause") {
				t.Errorf("%v", err)
			}
			sandboxes := 1
			if c.gone {
				sandboxes = 0
			}
			if s.host.still != 0 {
				t.Error("it stands still")
			}
			s.left(sandboxes, s.work)
		})
	}
}

// without is a sandbox whose files end with it.
type without struct{ repo.Sandbox }

func (w without) Info() api.Sandbox {
	info := w.Sandbox.Info()
	info.Workspace = ""
	return info
}

// TestCopyCanceled: who gives up while a sandbox stands still, or waits for its turn, leaves a sandbox that goes on.
func TestCopyCanceled(t *testing.T) {
	s := newStage(t, "container")
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	s.host.standing = func() {
		go func() { // the turn is not free
			ctx, stop := context.WithCancel(t.Context())
			stop()
			_, err := s.Copy(ctx, s.task, s.of, s.p)
			waits <- err
		}()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("it has waited: %v", err)
		}
		cancel()
	}
	if c, err := s.Copy(ctx, s.task, s.of, s.p); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", c, err)
	}
	if s.host.still != 0 || s.host.stood != 1 {
		t.Errorf("stood still %d times, %d still do", s.host.stood, s.host.still)
	}
	s.left(1, s.work)
	s.host.standing = nil
	if _, err := s.Copy(t.Context(), s.task, s.of, s.p); err != nil { // the control
		t.Error(err)
	}
}

// TestCopiesAtOnce: copies of one sandbox are made one after the other, those of two not.
func TestCopiesAtOnce(t *testing.T) {
	for _, isolation := range []string{"container", "gvisor"} {
		s := newStage(t, isolation)
		id, err := s.plain(t.Context(), s.task, s.layers)
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.Open(t.Context(), s.sandbox, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []api.WorkspaceID{s.work, id}
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 8 {
			wg.Go(func() {
				of := s.of
				if i%4 == 3 {
					of = other
				}
				c, err := s.Copy(t.Context(), s.task, of, s.p)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				want = append(want, c.Info().Workspace)
			})
		}
		wg.Wait()
		if s.host.overlap != 0 {
			t.Errorf("%s: %d copies met another one of the same sandbox", isolation, s.host.overlap)
		}
		s.left(10, want...)
	}
	// What one holds another does not wait for.
	s := newStage(t, "container")
	id, err := s.plain(t.Context(), s.task, s.layers)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Open(t.Context(), s.sandbox, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := true
	s.host.standing = func() {
		if first {
			first = false
			if _, err := s.Copy(t.Context(), s.task, other, s.p); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := s.Copy(t.Context(), s.task, s.of, s.p); err != nil {
		t.Error(err)
	}
}

// TestInherited: a copy has the policy that its sandbox has now, and the grants that have not ended.
func TestInherited(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ends := func(after time.Duration) *time.Time {
		end := now.Add(after)
		return &end
	}
	rule := func(secret string) api.HeaderRule {
		return api.HeaderRule{Host: "example.com", Headers: map[string]string{"X-Key": "is ${secret:" + secret + "}"}}
	}
	asked := &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "example.com"}, {Action: api.EgressAllow, Host: "example.org"}}}
	narrow := &api.EgressPolicy{Rules: asked.Rules[:1], Headers: []api.HeaderRule{rule("head")}}
	sandbox := api.CreateSandbox{
		Egress: asked, Headers: []api.HeaderRule{rule("head"), rule("other")}, Labels: map[string]string{"of": "test"},
		Secrets: []api.SecretGrant{{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 60_000}, {Name: "short", LifetimeMS: 1000}, {Name: "nearly", LifetimeMS: 1000}, {Name: "taken"}, {Name: "foreign"}},
	}
	held := []api.SecretGrant{
		{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 60_000, EndsAt: ends(20 * time.Second)}, {Name: "short", LifetimeMS: 1000, EndsAt: ends(-time.Second)},
		{Name: "nearly", LifetimeMS: 1000, EndsAt: ends(time.Millisecond)}, {Name: "taken", Revoked: true}, {Name: "unasked"},
	}
	left := []api.SecretGrant{{Name: "stays"}, {Name: "long", Env: "LONG", LifetimeMS: 20_000}}
	for name, c := range map[string]struct {
		of      api.Sandbox
		egress  *api.EgressPolicy
		headers []api.HeaderRule
		secrets []api.SecretGrant
		usable  []string
	}{
		"as it was created": {api.Sandbox{Egress: api.EgressRules, EgressPolicy: asked, Secrets: held}, asked, nil, left, []string{"long", "stays"}},
		"narrowed":          {api.Sandbox{Egress: api.EgressRules, EgressPolicy: narrow, Secrets: held}, narrow, nil, left, []string{"head", "long", "stays"}},
		"nothing":           {api.Sandbox{Egress: api.EgressNone}, &api.EgressPolicy{}, nil, nil, nil},
		"the host's":        {api.Sandbox{Egress: api.EgressHost, Secrets: held[:1]}, asked, sandbox.Headers, left[:1], []string{"stays"}},
	} {
		got := inherit(sandbox, c.of, now)
		if !reflect.DeepEqual(got.Egress, c.egress) || !reflect.DeepEqual(got.Headers, c.headers) || !reflect.DeepEqual(got.Secrets, c.secrets) || got.Labels["of"] != "test" {
			t.Errorf("%s: %+v", name, got)
		}
		if names := usable(sandbox, c.of, now); !slices.Equal(names, c.usable) {
			t.Errorf("%s: usable are %q", name, names)
		}
	}
	if len(sandbox.Secrets) != 6 || sandbox.Secrets[1].LifetimeMS != 60_000 || len(sandbox.Headers) != 2 || len(asked.Rules) != 2 {
		t.Errorf("the request was changed: %+v", sandbox)
	}
}
