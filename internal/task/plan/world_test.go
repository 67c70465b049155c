package plan_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/task/plan"
	"hortus.dev/internal/task/workstream"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
)

// world has what plans need: a database, a repository in a cache, and agents that change files as a script says, without a process.
type world struct {
	t      testing.TB
	db     *database.DB
	git    *cache.Cache
	source string
	tasks  *scripted
	log    *event.Log
	// busy are others than plans who change files.
	busy     busy
	registry *workstream.Registry
	// model is the planner's; nil for the offline one.
	model model.Model
	// pull is the merge request of plans, if the services follow any.
	pull *pull
	// archive is for the commits of plans; nil for none.
	archive plan.Archive
	now     func() time.Time
	calls   *gitCalls
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	dir := t.TempDir()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	calls := &gitCalls{}
	c, err := cache.Open(cache.Config{Dir: filepath.Join(dir, "cache"), Logger: slog.New(calls)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, git: c, source: gittest.NewCheckout(t, files), log: event.NewLog(event.Config{Store: db}), calls: calls}
	w.tasks = &scripted{world: w, rows: map[api.TaskID]*scriptedTask{}, agents: map[string]agent{}}
	return w
}

// daemon begins a service with an owner of its own over the rows.
func (w *world) daemon(rows store.Plans) *plan.Service {
	w.t.Helper()
	s, _ := w.node(rows, nil)
	return s
}

// node is daemon, and returns its owner. elsewhere returns the other nodes for an owner; it may be nil.
func (w *world) node(rows store.Plans, elsewhere func(api.OwnerID) plan.Elsewhere) (*plan.Service, api.OwnerID) {
	w.t.Helper()
	owner := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: "/nowhere", StartedAt: time.Now(), BeatAt: time.Now()}
	if err := w.db.InsertOwner(context.Background(), owner); err != nil {
		w.t.Fatal(err)
	}
	off, err := offline.New()
	if err != nil {
		w.t.Fatal(err)
	}
	w.tasks.setOwner(owner.ID)
	cfg := plan.Config{
		Rows: rows, Tasks: w.tasks, Git: w.git, Source: func(_ context.Context, url string) (git.Source, error) { return git.Source{URL: url}, nil },
		Model: func(string) (model.Model, error) {
			if w.model != nil {
				return w.model, nil
			}
			return off, nil
		}, Log: facts{w.log}, Owner: owner.ID, Now: w.now,
		Workstreams: w.owners(rows),
	}
	if w.pull != nil {
		cfg.Reviews, cfg.FollowEvery = w.pull, 24*time.Hour // the tests look themselves
	}
	if cfg.Archive = w.archive; elsewhere != nil {
		cfg.Elsewhere = elsewhere(owner.ID)
	}
	s := plan.New(cfg)
	w.t.Cleanup(func() { s.Close(context.Background()) })
	return s, owner.ID
}

// facts is the log of the world.
type facts struct{ *event.Log }

func (f facts) Appended(e api.Event) { f.Wake(e.Stream, e.Seq) }

// busy are claims of others than plans.
type busy struct {
	mu     sync.Mutex
	claims []workstream.Claim
}

func (b *busy) Claims(context.Context, string) ([]workstream.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.claims), nil
}

// owners makes what knows who changes which files.
func (w *world) owners(rows store.Plans) *workstream.Registry {
	w.registry = workstream.New(workstream.Config{Sources: []workstream.Source{plan.Claims{Rows: rows}, &w.busy}})
	return w.registry
}

// work has others than plans change files of the repository; none ends that.
func (w *world) work(streams ...api.Workstream) {
	w.t.Helper()
	r, err := w.git.Remote(w.source)
	if err != nil {
		w.t.Fatal(err)
	}
	var claims []workstream.Claim
	for _, s := range streams {
		claims = append(claims, workstream.Claim{Workstream: s, Key: r.BranchKey("")})
	}
	w.busy.mu.Lock()
	w.busy.claims = claims
	w.busy.mu.Unlock()
	w.registry.Released()
}

// create requests a plan of some items.
func (w *world) create(s *plan.Service, items []words.Item, change func(*words.Create)) words.Plan {
	w.t.Helper()
	req := words.Create{Items: items, Task: api.CreateTask{Request: "Do all of it", Repo: &api.RepoTask{URL: w.source, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}}}
	if change != nil {
		change(&req)
	}
	p, err := s.Create(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// until waits for a plan that a condition holds for: it looks after each event.
func (w *world) until(s *plan.Service, id api.PlanID, what string, holds func(words.Plan) bool) words.Plan {
	w.t.Helper()
	return w.follow(s, id, what, false, holds)
}

// follow is until; if ended is set, it looks after the event of an end only.
func (w *world) follow(s *plan.Service, id api.PlanID, what string, ended bool, holds func(words.Plan) bool) words.Plan {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for e, err := range w.log.Follow(ctx, api.Stream{Kind: words.Stream, ID: string(id)}, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if ended && e.Type != words.EventFinished {
			continue
		}
		p, err := s.Get(ctx, "", id)
		if err != nil {
			w.t.Fatal(err)
		}
		if holds(p) {
			return p
		}
	}
	p, err := s.Get(context.Background(), "", id)
	w.t.Fatalf("the plan is not %s but %s: %s: %v, %v", what, p.State, p.Why, p.Counts, err)
	return p
}

func (w *world) done(s *plan.Service, id api.PlanID) words.Plan {
	w.t.Helper()
	return w.follow(s, id, "done", true, func(p words.Plan) bool { return p.State == words.Done })
}

// tree returns the files of a commit.
func (w *world) tree(commit string) map[string]string {
	w.t.Helper()
	r, err := w.git.Find(w.source)
	if err != nil {
		w.t.Fatal(err)
	}
	entries, err := r.Files(context.Background(), commit)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		text, err := r.Content(context.Background(), e, 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		out[e.Path] = string(text)
	}
	return out
}

// agent changes files; a file that it returns as "" is removed. An error ends its task without a result.
type agent func(ctx context.Context, job job) (files map[string]string, err error)

// job is what a scripted agent sees.
type job struct {
	try    int // of the item, from 1
	create api.CreateTask
	files  map[string]string
}

// wants is the end of an agent that asks for files.
type wants []string

func (w wants) Error() string { return "wants " + strings.Join(w, " ") }

// scripted runs tasks of plans in the process of the test. Its tasks survive the services, as those of an engine survive its daemon.
type scripted struct {
	world *world
	// judge is the gate: it says what is wrong with files; "" for nothing. It may be nil.
	judge func(files map[string]string) string
	// until is the command Until of plans, as judge.
	until func(files map[string]string) string
	// begun is called when a task begins; it may be nil.
	begun func(it api.ItemTask)
	// deliver delivers the result of a task; nil for tasks that cannot be delivered.
	deliver func(t api.Task, req api.DeliverTask) (api.Delivery, error)

	running, most atomic.Int32

	mu     sync.Mutex
	owner  api.OwnerID
	agents map[string]agent // by item
	rows   map[api.TaskID]*scriptedTask
	tries  map[string]int
	starts int
}

// errStops is the end of an agent whose task stops for another node, which continues it from the beginning.
var errStops = errors.New("it stops here")

const stopped = api.Outcome("stopped")

type scriptedTask struct {
	stopped bool
	task    api.Task
	cancel  context.CancelFunc
	done    chan struct{}
}

func (s *scripted) setOwner(id api.OwnerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = id
}

func (s *scripted) CheckItem(_ context.Context, create api.CreateTask) (api.CreateTask, error) {
	return create, nil
}

func (s *scripted) StartItem(_ context.Context, id api.TaskID, create api.CreateTask) (api.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows[id]; r != nil && (!r.stopped || r.task.Owner == s.owner) {
		return r.task, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &scriptedTask{task: api.Task{ID: id, State: api.TaskRunning, Create: create, Owner: s.owner}, cancel: cancel, done: make(chan struct{})}
	s.rows[id] = r
	if s.tries == nil {
		s.tries = map[string]int{}
	}
	it := *create.Repo.Item
	if it.Check == "" {
		s.tries[it.Item]++
		s.starts++
	}
	try, act, begun := s.tries[it.Item], s.agents[it.Item], s.begun
	if begun != nil {
		begun(it)
	}
	go func() {
		defer close(r.done)
		end := s.run(ctx, create, try, act)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.stopped = end.Outcome == stopped; r.stopped {
			return
		}
		end.ID, end.State, end.Create, end.Owner = id, api.TaskDone, create, r.task.Owner
		r.task = end
	}()
	return r.task, nil
}

func (s *scripted) run(ctx context.Context, create api.CreateTask, try int, act agent) api.Task {
	it := *create.Repo.Item
	if it.Check != "" {
		if create.Repo.Until != "" {
			if wrong := s.until(s.world.tree(it.Check)); wrong != "" {
				return api.Task{Outcome: api.OutcomeNeedsHuman, Diagnosis: wrong, Repo: &api.RepoResult{Head: it.Check}}
			}
		}
		if s.judge != nil {
			if wrong := s.judge(s.world.tree(it.Check)); wrong != "" {
				return api.Task{Outcome: api.OutcomeNeedsHuman, Diagnosis: wrong, Repo: &api.RepoResult{Head: it.Check}}
			}
		}
		return api.Task{Outcome: api.OutcomeVerified, Repo: &api.RepoResult{Head: it.Check}}
	}
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	from := create.Repo.Ref
	if it.Start != "" {
		from = it.Start
	}
	reads := act != nil
	if !reads {
		act = func(context.Context, job) (map[string]string, error) {
			return map[string]string{it.Item + ".txt": it.Item + "\n"}, nil
		}
	}
	var have map[string]string
	if reads {
		have = s.world.tree(from)
	}
	files, err := act(ctx, job{try, create, have})
	var asked wants
	switch {
	case errors.Is(err, errStops):
		return api.Task{Outcome: stopped}
	case ctx.Err() != nil:
		return api.Task{Outcome: api.OutcomeCanceled, Receipt: &api.Receipt{}}
	case err != nil && !errors.As(err, &asked):
		return api.Task{Outcome: api.OutcomeNeedsHuman, Diagnosis: err.Error()}
	}
	head, err := s.world.commit(from, create.Repo.Ref, files)
	if err != nil {
		return api.Task{Outcome: api.OutcomeFailed, Error: api.AsError(err)}
	}
	t := api.Task{Outcome: api.OutcomeVerified, Repo: &api.RepoResult{Head: head}, Usage: api.Usage{Requests: 1}}
	for _, p := range asked {
		t.Outcome = api.OutcomeNeedsHuman
		t.Repo.Wanted = append(t.Repo.Wanted, api.WantedFile{Path: p, Why: "it is needed"})
	}
	return t
}

// commit makes a commit on base whose files are those of from with changes; "" for no change.
func (w *world) commit(from, base string, files map[string]string) (string, error) {
	r, err := w.git.Find(w.source)
	if err != nil {
		return "", err
	}
	who := cache.Identity{Name: "Agent", Email: "agent@example.org"}
	q := cache.CommitRequest{Parent: from, Author: who, Committer: who, Message: "Work", When: time.Unix(1_700_000_000, 0)}
	var have map[string]string
	for _, text := range files {
		if text == "" && have == nil {
			have = w.tree(from)
		}
	}
	for p, text := range files {
		_, there := have[p]
		switch {
		case text == "" && there:
			q.Changes = append(q.Changes, cache.Change{Path: p, Delete: true})
		case text != "":
			mode, text := modeOf(text)
			q.Changes = append(q.Changes, cache.Change{Path: p, Mode: mode, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader([]byte(text))), nil
			}})
		}
	}
	res, err := r.Commit(context.Background(), q)
	if err != nil {
		return "", err
	}
	switch {
	case res.Empty:
		res.Hash = from
	case from == base:
		return res.Hash, nil
	}
	q.Parent = base
	if res, err = r.CommitTree(context.Background(), r, res.Hash, "", q); err != nil || res.Empty {
		return "", err
	}
	return res.Hash, nil
}

func (s *scripted) find(id api.TaskID) *scriptedTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[id]
}

func (s *scripted) Wait(ctx context.Context, id api.TaskID) (api.Task, error) {
	r := s.find(id)
	if r == nil {
		return api.Task{}, api.Errorf(api.KindNotFound, "no task %s", id)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return api.Task{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.task, nil
}

func (s *scripted) Cancel(ctx context.Context, id api.TaskID) (api.Task, error) {
	r := s.find(id)
	if r == nil {
		return api.Task{}, api.Errorf(api.KindNotFound, "no task %s", id)
	}
	r.cancel()
	return s.Wait(ctx, id)
}

func (s *scripted) Deliver(_ context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	r := s.find(id)
	if s.deliver == nil || r == nil {
		return api.Task{}, api.Errorf(api.KindUnsupported, "scripted tasks deliver nothing")
	}
	s.mu.Lock()
	t := r.task
	s.mu.Unlock()
	d, err := s.deliver(t, req)
	res := *t.Repo
	res.Delivery, t.Repo = &d, &res
	return t, err
}

// eventually waits for a condition that no event tells.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); !holds(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("it does not become true that %s", what)
		}
	}
}
