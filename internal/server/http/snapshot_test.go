package http_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// saves plays the manager's snapshots and keeps what it was asked.
type saves struct {
	list []api.Snapshot
	// steps are those of a template; after them comes err, or the snapshot.
	steps []string
	err   error
	// begun and ended tell of a template that continues until its context does.
	begun, ended chan struct{}

	mu    sync.Mutex
	asked []any
}

func (s *saves) ask(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, v)
}

// last returns what was asked last.
func (s *saves) last() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return nil
	}
	return s.asked[len(s.asked)-1]
}

func (s *saves) Snapshot(_ context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	s.ask(req)
	if req.Name == "Bad" {
		return api.Snapshot{}, api.Errorf(api.KindInvalid, "Bad is no name").WithHint("bad is one")
	}
	return api.Snapshot{ID: s.list[0].ID, Sandbox: id, State: api.SnapshotReady}, nil
}
func (s *saves) Fork(_ context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	s.ask(req)
	out := api.ForkResult{Parent: id, Kind: api.SnapshotFiles, Why: "no memory here", PausedMS: 12}
	for n := range req.Count {
		child := api.ForkChild{Sandbox: &api.Sandbox{ID: api.NewSandboxID(), Parent: id}}
		if n%2 == 1 {
			child = api.ForkChild{Error: &api.Error{Kind: api.KindExhausted, Message: "no memory is left", Hint: "kill one"}}
		}
		out.Children = append(out.Children, child)
	}
	return out, nil
}
func (s *saves) PauseToDisk(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	s.ask("to disk")
	return api.Sandbox{ID: id, State: api.SandboxPaused}, nil
}
func (s *saves) SnapshotPage(_ context.Context, all bool, _ api.PageRequest) ([]api.Snapshot, string, error) {
	s.ask(all)
	return s.list, "", nil
}
func (s *saves) GetSnapshot(_ context.Context, id api.SnapshotID) (api.Snapshot, error) {
	i := slices.IndexFunc(s.list, func(x api.Snapshot) bool { return x.ID == id })
	if i < 0 {
		return api.Snapshot{}, api.Errorf(api.KindNotFound, "there is no snapshot %q", id)
	}
	return s.list[i], nil
}
func (s *saves) FindSnapshot(_ context.Context, name string) (api.SnapshotID, error) {
	s.ask(name)
	for _, x := range s.list {
		if x.HasName(name) || strings.HasPrefix(string(x.ID), name) {
			return x.ID, nil
		}
	}
	return "", api.Errorf(api.KindNotFound, "there is no snapshot %q", name)
}
func (s *saves) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	v, err := s.GetSnapshot(ctx, id)
	v.State = api.SnapshotRemoved
	return v, err
}
func (s *saves) TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error) {
	s.ask(req)
	return s.GetSnapshot(ctx, id)
}
func (s *saves) UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error) {
	s.ask(tag)
	return s.GetSnapshot(ctx, id)
}
func (s *saves) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(string)) (api.Snapshot, error) {
	s.ask(req)
	for _, step := range s.steps {
		progress(step)
	}
	if s.ended != nil {
		close(s.begun)
		<-ctx.Done()
		close(s.ended)
		return api.Snapshot{}, ctx.Err()
	}
	return api.Snapshot{ID: s.list[0].ID, Name: req.Name}, s.err
}

func newSaves() *saves {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	return &saves{list: []api.Snapshot{
		{ID: api.NewSnapshotID(), State: api.SnapshotReady, Name: "py", CreatedAt: at},
		{ID: api.NewSnapshotID(), State: api.SnapshotReady, CreatedAt: at},
		{ID: api.NewSnapshotID(), State: api.SnapshotReady, Name: "py"}, // replaced
		{ID: api.NewSnapshotID(), State: api.SnapshotSaving, Name: "half"},
		{ID: api.NewSnapshotID(), State: api.SnapshotBroken, Name: "node"},
	}}
}

func TestSnapshotCalls(t *testing.T) {
	f := &fakes{saves: newSaves()}
	c, _ := serve(t, f)
	ctx := t.Context()
	s, err := c.Sandboxes.Get(ctx, string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	want := api.CreateSnapshot{Name: "py", FilesOnly: true}
	if got, err := s.Snapshot(ctx, want); err != nil || got.Sandbox != f.id || !reflect.DeepEqual(f.saves.last(), want) {
		t.Errorf("Snapshot: %+v, %v, asked %+v", got, err, f.saves.last())
	}
	if _, err := s.Snapshot(ctx, api.CreateSnapshot{Name: "Bad"}); api.KindOf(err) != api.KindInvalid || api.HintOf(err) != "bad is one" {
		t.Errorf("Snapshot with a bad name: %v", err)
	}
	fork := api.ForkSandbox{Count: 3, TTLMS: 5000, Env: map[string]string{"A": "b"}, Labels: map[string]string{"l": "m"}, FilesOnly: true}
	res, err := s.Fork(ctx, fork)
	if err != nil || !reflect.DeepEqual(f.saves.last(), fork) {
		t.Errorf("Fork: %v, asked %+v", err, f.saves.last())
	}
	// One that failed does not hide the others, nor they it.
	if len(res.Children) != 3 || res.Parent != f.id || res.Why == "" || res.PausedMS != 12 || res.Children[0].Sandbox.Parent != f.id ||
		res.Children[1].Sandbox != nil || res.Children[1].Error.Kind != api.KindExhausted || res.Children[1].Error.Hint != "kill one" {
		t.Errorf("Fork: %+v", res)
	}
	if got, err := s.PauseToDisk(ctx); err != nil || got.State != api.SandboxPaused || f.saves.last() != "to disk" {
		t.Errorf("PauseToDisk: %+v, %v", got, err)
	}
	for _, all := range []bool{false, true} {
		if got, err := c.Snapshots.List(ctx, all); err != nil || len(got) != len(f.saves.list) || f.saves.last() != all {
			t.Errorf("Snapshots(%v): %d, %v, asked %v", all, len(got), err, f.saves.last())
		}
	}
	first := f.saves.list[0]
	for _, id := range []string{string(first.ID), "py", string(first.ID)[:8]} {
		if got, err := c.Snapshots.Get(ctx, id); err != nil || got.ID != first.ID || !got.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("Snapshot(%s): %+v, %v", id, got, err)
		}
	}
	if got, err := c.Snapshots.Tag(ctx, "py:default", "v1", "V_2.0"); err != nil || got.ID != first.ID || !reflect.DeepEqual(f.saves.last(), api.TagSnapshot{Tags: []string{"v1", "V_2.0"}}) {
		t.Errorf("Tag: %+v, %v, asked %+v", got, err, f.saves.last())
	}
	if got, err := c.Snapshots.Untag(ctx, "py", "V_2.0"); err != nil || got.ID != first.ID || f.saves.last() != "V_2.0" {
		t.Errorf("Untag: %+v, %v, asked %+v", got, err, f.saves.last())
	}
	for _, bad := range []string{"", ".", "..", "-v", "a/b", "a b", "a:b", "ä", strings.Repeat("a", 129)} {
		if _, err := c.Snapshots.Untag(ctx, "py", bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("Untag %.10q: %v", bad, err)
		}
	}
	if got, err := c.Snapshots.Remove(ctx, "py"); err != nil || got.ID != first.ID || got.State != api.SnapshotRemoved {
		t.Errorf("RemoveSnapshot: %+v, %v", got, err)
	}
	if _, err := c.Snapshots.Get(ctx, "no-such"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("one that is not there: %v", err)
	}
	for _, bad := range []string{"", "../info", "A", "a b", "a/b", "a%2fb", "-", "ä", strings.Repeat("a", 64), "py:", "py:.", ":v1", "py:a:b"} {
		_, err := c.Snapshots.Get(ctx, bad)
		if _, err2 := c.Snapshots.Remove(ctx, bad); api.KindOf(err) != api.KindInvalid || api.KindOf(err2) != api.KindInvalid {
			t.Errorf("%.10q: %v; %v", bad, err, err2)
		}
	}
	list, err := c.Templates.List(ctx)
	if err != nil || len(list) != 2 || list[0] != (api.Template{Name: "host"}) || list[1].Name != "py" || list[1].Snapshot.ID != first.ID {
		t.Errorf("Templates: %+v, %v", list, err)
	}
}

// TestSnapshotRequests holds requests to their form.
func TestSnapshotRequests(t *testing.T) {
	f := &fakes{saves: newSaves()}
	_, path := serve(t, f)
	sandbox := "/v1/sandboxes/" + string(f.id)
	for _, c := range []struct {
		url, body string
		code      int
		says      string
	}{
		{sandbox + "/pause", "", 400, "pause is missing here"}, // the fake's Pause, as without a body ever since
		{sandbox + "/pause", "{}", 400, "pause is missing here"},
		{sandbox + "/pause", `{"toDisk":true}`, 200, "paused"},
		{sandbox + "/pause", `{"todisk_":true}`, 400, "todisk_"},
		{sandbox + "/pause", `{"toDisk":"yes"}`, 400, "toDisk"},
		{sandbox + "/pause", "{} {}", 400, "more than one"},
		{sandbox + "/pause", "{", 400, "malformed"},
		{sandbox + "/snapshots", "", 201, `"state":"ready"`},
		{sandbox + "/snapshots", `{"naem":"x"}`, 400, "naem"},
		{sandbox + "/snapshots", `{"name":"` + strings.Repeat("x", 5<<20) + `"}`, 400, "more than"},
		{sandbox + "/forks", "", 201, `"children":[]`},
		{sandbox + "/forks", `{"count":"many"}`, 400, "count"},
		{sandbox + "/forks", `{"count":1.5}`, 400, "count"},
		{sandbox + "/forks", `{"count":2}`, 201, "no memory is left"},
		{"/v1/sandboxes/zzz/forks", "{}", 404, "zzz"},
		{"/v1/templates", "", 400, "empty"},
		{"/v1/templates", `{"name":"x","run":"pip"}`, 400, "run"},
	} {
		code, got := post(t, path, c.url, c.body)
		if code != c.code || !strings.Contains(got, c.says) {
			t.Errorf("%s %.40s: %d %.200s; want %d that says %q", c.url, c.body, code, got, c.code, c.says)
		}
	}
	hc := unix(path)
	defer hc.CloseIdleConnections()
	for query, want := range map[string]int{"": 200, "?all=1": 200, "?all=true": 200, "?all=false": 200, "?all=some": 400} {
		for _, list := range []string{"snapshots", "sandboxes"} {
			resp, err := hc.Get("http://server/v1/" + list + query)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s%s: %s, want %d", list, query, resp.Status, want)
			}
		}
	}
}

func TestCreateTemplate(t *testing.T) {
	want := api.CreateTemplate{Name: "py", From: "host", Limits: api.Limits{MemoryBytes: 1 << 20}, Run: []string{"a", "b"}, TimeoutMS: 5}
	for name, f := range map[string]*saves{
		"made":                {steps: []string{"boot", "run a", "save"}},
		"fails at once":       {err: api.Errorf(api.KindInvalid, "py is no name").WithHint("x")},
		"fails in the middle": {steps: []string{"boot", "run a"}, err: api.Errorf(api.KindConflict, "a: exit 1").WithHint("x")},
	} {
		f.list = newSaves().list
		c, _ := serve(t, &fakes{saves: f})
		var steps []string
		got, err := c.Templates.Create(t.Context(), want, func(s string) { steps = append(steps, s) })
		if !slices.Equal(steps, f.steps) || !reflect.DeepEqual(f.last(), want) {
			t.Errorf("%s: steps %q, asked %+v", name, steps, f.last())
		}
		switch {
		case f.err == nil && (err != nil || got.ID != f.list[0].ID):
			t.Errorf("%s: %+v, %v", name, got, err)
		case f.err != nil && (api.KindOf(err) != api.KindOf(f.err) || api.HintOf(err) != "x" || err.Error() != f.err.Error()):
			t.Errorf("%s: %v, want %v", name, err, f.err)
		}
		if _, err := c.Templates.Create(t.Context(), want, nil); api.KindOf(err) != api.KindOf(f.err) {
			t.Errorf("%s, without listening: %v", name, err)
		}
	}
}

// TestTemplateEndsWithItsClient: who goes away does not leave work behind.
func TestTemplateEndsWithItsClient(t *testing.T) {
	f := &fakes{saves: newSaves()}
	f.saves.steps = []string{"boot"}
	f.saves.begun, f.saves.ended = make(chan struct{}), make(chan struct{})
	c, _ := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Templates.Create(ctx, api.CreateTemplate{Name: "py"}, nil)
		failed <- err
	}()
	<-f.saves.begun
	cancel()
	if err := <-failed; api.KindOf(err) != api.KindCanceled {
		t.Errorf("%v", err)
	}
	select {
	case <-f.saves.ended:
	case <-time.After(patience.Of(60 * time.Second)):
		t.Fatal("the template is still being made")
	}
}
