package repo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/best"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/contract"
	"hortus.dev/internal/task/durable"
	"hortus.dev/internal/task/ledger"
	"hortus.dev/internal/task/recall"
	"hortus.dev/internal/task/seat"
)

// Candidate is one of several agents of a task, with what it needs.
type Candidate struct {
	best.Variant
	// Agent, Model and Large are as in [Job].
	Agent               string
	Model, Large, Small model.Model
	// ModelName is the model of a program.
	ModelName string
}

// CandidateDir is the folder of a candidate, below that of its task.
func CandidateDir(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("candidate-%d", n))
}

// errPassed ends the candidates of a task with First when another one has passed.
var errPassed = errors.New("another candidate has passed")

// contest is the work of all candidates of a task. It starts a goroutine for each and waits for them.
type contest struct {
	main  *attempt
	all   []*entrant
	turns chan struct{}

	mu   sync.Mutex
	rows []best.Candidate
}

// entrant is a candidate.
type entrant struct {
	*attempt
	of *contest
	n  int
	// end is how it ended, and ms how long it took.
	end End
	ms  int64
}

// contest lets several candidates work on the task and takes the result of the best one.
func (w *attempt) contest(ctx context.Context, candidates []Candidate, told map[int]map[api.EventType]int) End {
	if err := w.before(ctx); err != nil {
		return w.broken(ctx, err)
	}
	leave, err := w.serveOnce(ctx, len(candidates), w.Closed)
	if err != nil {
		return w.broken(ctx, err)
	}
	defer leave(ctx)
	c := &contest{main: w, turns: make(chan struct{}, min(len(candidates), w.cfg.Candidates))}
	for i, one := range candidates {
		c.rows = append(c.rows, best.Candidate{N: i + 1, Variant: one.Variant, State: best.Waiting, Workspace: string(w.named(i + 1))})
		c.all = append(c.all, c.entrant(i+1, one, told[i+1]))
	}
	c.run(ctx)
	if w.Damage() != nil {
		// Perhaps another daemon works on the task now: nothing is removed.
		return End{Outcome: api.OutcomeLost}
	}
	return c.decide(ctx)
}

// serveOnce has the services of the setup started once for candidates that the loop works for, until leave is called.
func (w *project) serveOnce(ctx context.Context, of int, closed func(int)) (leave func(context.Context), err error) {
	p := contract.Preparation{Box: w.prepared.Into(w.sandbox()), Layers: (&staff{}).layers(w), Services: w.prepared.Services, Of: of}
	p.Access, err = w.access(ctx)
	return contract.Prepare(w.cfg.Computers, w.task.ID, p, closed), err
}

// named is the workspace of a candidate in the row of a task that goes on.
func (w *attempt) named(n int) api.WorkspaceID {
	if t := w.task.Repo; t != nil && n <= len(t.Candidates) {
		return api.WorkspaceID(t.Candidates[n-1].Workspace)
	}
	return ""
}

// entrant begins a candidate: an attempt with its own ledger and its own part of the journal.
func (c *contest) entrant(n int, one Candidate, told map[api.EventType]int) *entrant {
	w := c.main
	res := w.res
	res.Branch, res.Repositories = candidateBranch(w.task.ID, n), slices.Clone(w.res.Repositories)
	e := &entrant{of: c, n: n, attempt: &attempt{
		project: w.project, candidate: n, dir: CandidateDir(w.dir, n), res: res, box: seat.New(w.files),
		Ledger:  ledger.New(ledger.Marked{Emitter: w.Emitter(), N: n}, w.cfg.Now),
		Journal: recall.New(w.Rec.Part(fmt.Sprint("candidate ", n)), told, w.cfg.Now),
		staff:   staff{agent: one.Agent, model: one.Model, large: one.Large, small: one.Small, variant: one.Variant, modelName: one.ModelName},
	}}
	e.judge = &judge{of: e.attempt, commands: w.judge.commands}
	e.store = func(ctx context.Context, r api.RepoResult) error { return c.placed(ctx, n, r.Workspace) }
	return e
}

// candidateBranch is the branch of a candidate, until it is chosen or removed.
func candidateBranch(id api.TaskID, n int) string {
	return fmt.Sprintf("%s-candidate-%d", Branch(id), n)
}

// run lets all candidates work, side by side as far as is allowed.
func (c *contest) run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, e := range c.all {
		wg.Go(func() {
			select {
			case c.turns <- struct{}{}:
				defer func() { <-c.turns }()
			case <-ctx.Done():
			}
			c.enter(ctx, e)
			if e.end.Outcome == api.OutcomeVerified && c.main.req.Best.First || c.main.Damage() != nil {
				cancel(errPassed)
			}
		})
	}
	wg.Wait()
}

// finished is the end of a candidate as it is recorded.
type finished struct {
	Mark mark  `json:"mark"`
	End  End   `json:"end"`
	MS   int64 `json:"ms"`
}

// enter executes a candidate, or recalls how it ended.
func (c *contest) enter(ctx context.Context, e *entrant) {
	executed := false
	was, err := recall.Record(ctx, c.main.Journal, fmt.Sprint("candidate ", e.n), nil, func(ctx context.Context, _ durable.Try) (finished, error) {
		executed = true
		c.note(ctx, e.n, true, func(r *best.Candidate) { r.State = best.Running })
		start := e.cfg.Now()
		e.end = e.work(ctx)
		e.ms = e.cfg.Now().Sub(start).Milliseconds()
		end := e.end
		end.Result = api.RepoResult{}
		return finished{e.mark(nil), end, e.ms}, nil
	})
	switch {
	case executed:
	case err != nil: // its turn did not come
		e.end = e.broken(ctx, err)
	default:
		e.restore(was.Mark)
		e.end, e.ms = was.End, was.MS
	}
	if err := e.Damage(); err != nil {
		c.main.Spoil(err)
	}
	// An earlier daemon told the end of one that is recalled.
	c.note(ctx, e.n, executed || err != nil, func(r *best.Candidate) { e.scored(r, executed, context.Cause(ctx)) })
}

// work is the whole of a candidate. Whatever happens, what its agent left is committed.
func (e *entrant) work(ctx context.Context) (end End) {
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("a candidate panicked", "task", e.task.ID, "candidate", e.n, "panic", v, "stack", string(debug.Stack()))
			end = failed(api.Errorf(api.KindInternal, "internal error: %v", v))
		}
		end = e.finish(ctx, end)
		e.letGo()
	}()
	e.answers = recall.NewAgent(e.Journal, ctx, tool.Again())
	if err := ownDir(e.dir); err != nil {
		return e.broken(ctx, err)
	}
	if err := e.install(ctx); err != nil {
		return e.broken(ctx, err)
	}
	if err := e.keep(ctx, "workspace", e.place); err != nil {
		return e.broken(ctx, err)
	}
	return e.rounds(ctx)
}

// place makes the files of the candidate, but for one that was cut after its row named them.
func (e *entrant) place(ctx context.Context) (err error) {
	if e.res.Workspace = e.named(e.n); e.res.Workspace == "" {
		e.res.Workspace, err = e.cfg.Computers.Workspace(ctx, e.task.ID, e.staff.layers(e.project)...)
	}
	if err != nil {
		return err
	}
	return e.of.placed(ctx, e.n, e.res.Workspace)
}

// placed stores where a candidate has its files.
func (c *contest) placed(ctx context.Context, n int, ws api.WorkspaceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ws == "" || slices.ContainsFunc(c.main.res.Candidates, func(r best.Candidate) bool { return r.N == n && r.Workspace == string(ws) }) {
		return nil // it is stored
	}
	c.rows[n-1].Workspace = string(ws)
	return c.store(ctx)
}

// store stores the candidates in the task. It is called with the lock: states of a task are stored one after the other.
func (c *contest) store(ctx context.Context) error {
	c.main.res.Candidates = slices.Clone(c.rows)
	if c.main.Rec.Remembers() {
		return nil // more is stored already
	}
	return c.main.store(context.WithoutCancel(ctx), c.main.res)
}

// note changes what is known of a candidate, stores it and, if it is new, tells it.
func (c *contest) note(ctx context.Context, n int, told bool, change func(*best.Candidate)) {
	c.mu.Lock()
	change(&c.rows[n-1])
	row := c.rows[n-1]
	err := c.store(ctx)
	c.mu.Unlock()
	if err != nil {
		c.main.cfg.Logger.Error("store the candidates of a task", "task", c.main.task.ID, "err", err)
	}
	if told {
		c.main.Tell(ctx, api.EventCandidate, row)
	}
}
