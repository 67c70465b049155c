package best

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"hortus.dev/api"
)

// errPassed ends the candidates of a task with First when another one has passed.
var errPassed = errors.New("another candidate has passed")

// Entry is how a candidate took part.
type Entry int

const (
	// Worked: it worked now.
	Worked Entry = iota
	// Recalled: it had worked before, and its end was reported.
	Recalled
	// Absent: its turn did not come.
	Absent
)

// Candidate is a candidate.
type Candidate interface {
	// Enter works to the end, or recalls how the work ended. begins is called before it works.
	Enter(ctx context.Context, begins func()) Entry
	// Result is what it came to. It is called after Enter.
	Result() Result
	// Lint runs a lint command on the result, and reports whether it passed.
	Lint(ctx context.Context, command string) (passed bool, err error)
	// Tests reports whether its result has new or changed tests.
	Tests(ctx context.Context) (bool, error)
	// Try runs the gate on the result with the tests of candidate n in the place of its own, and reports whether it passed.
	Try(ctx context.Context, n int) (passed bool, err error)
}

// Result is what a candidate came to.
type Result struct {
	Outcome api.Outcome
	// OldOnly is as in api.Candidate.
	OldOnly bool
	// Why is what kept it from passing.
	Why   string
	Repo  api.RepoResult
	Usage api.Usage
	MS    int64
}

// Config is what Candidates are made of. All fields but Logger must be set.
type Config struct {
	Task    api.TaskID
	Request api.BestOf
	// AtOnce is how many candidates work at a time.
	AtOnce int
	// Enter makes a candidate, of which the row is known so far. It may set the workspace of the row. The calls come one
	// after the other, by the numbers of the candidates; the parent of one has ended.
	Enter func(row *api.Candidate) Candidate
	// Store stores the candidates in the task. Its calls come one after the other.
	Store func(ctx context.Context, rows []api.Candidate) error
	// Tell emits what is known of a candidate.
	Tell func(ctx context.Context, row api.Candidate)
	// More reports whether another level may begin, as far as the budgets of the task decide. It is called between levels.
	More func() bool
	// Damaged reports whether the task cannot be continued.
	Damaged func() bool
	Logger  *slog.Logger
}

// Candidates is the work of all candidates of a task.
type Candidates struct {
	cfg   Config
	turns chan struct{}
	all   []Candidate

	mu sync.Mutex
	// rows are what is known, and stored what was given to Store.
	rows, stored []api.Candidate
}

// New makes Candidates. None has begun.
func New(cfg Config) *Candidates {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Candidates{cfg: cfg, turns: make(chan struct{}, max(1, min(cfg.Request.Of, cfg.AtOnce)))}
}

// Run lets all candidates work, level after level. Those of a level work side by side as far as is allowed.
func (c *Candidates) Run(ctx context.Context) {
	c.level(ctx, 1, 0)
	for n := 2; n <= c.cfg.Request.Levels(); n++ {
		parent := c.next()
		if parent == 0 || ctx.Err() != nil || c.cfg.Damaged() || !c.cfg.More() {
			return
		}
		c.level(ctx, n, parent)
	}
}

// next is the candidate that the next level continues: the best one that no level has continued. It is 0 if one has
// passed, or if none can be continued. It follows from what the candidates came to, so that a task that continues after a
// crash finds the same.
func (c *Candidates) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range rank(c.rows, false) {
		r := c.rows[o.N-1]
		if r.Passed {
			return 0
		}
		continued := slices.ContainsFunc(c.rows, func(child api.Candidate) bool { return child.Parent == r.N })
		// What failed, was declined or was canceled would end in the same way again.
		if !continued && r.Outcome == string(api.OutcomeNeedsHuman) && r.Workspace != "" {
			return r.N
		}
	}
	return 0
}

// level lets the candidates of a level work, which continue the work of parent, if that is not 0.
func (c *Candidates) level(ctx context.Context, n, parent int) {
	first := len(c.all)
	for _, v := range c.cfg.Request.Vary {
		row := api.Candidate{N: len(c.all) + 1, Variant: v, State: api.CandidateWaiting}
		if c.cfg.Request.Levels() > 1 {
			row.Level, row.Parent = n, parent
		}
		c.all = append(c.all, c.cfg.Enter(&row))
		c.mu.Lock()
		c.rows = append(c.rows, row)
		c.mu.Unlock()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, e := range c.all[first:] {
		wg.Go(func() {
			select {
			case c.turns <- struct{}{}:
				defer func() { <-c.turns }()
			case <-ctx.Done():
			}
			c.enter(ctx, first+i+1, e)
			if e.Result().Outcome == api.OutcomeVerified && c.cfg.Request.First || c.cfg.Damaged() {
				cancel(errPassed)
			}
		})
	}
	wg.Wait()
}

// enter lets a candidate work, or recall how it ended.
func (c *Candidates) enter(ctx context.Context, n int, e Candidate) {
	how := e.Enter(ctx, func() {
		c.note(ctx, n, true, func(r *api.Candidate) { r.State = api.CandidateRunning })
	})
	// An earlier daemon told the end of one that is recalled.
	c.note(ctx, n, how != Recalled, func(r *api.Candidate) { scored(r, e.Result(), how, context.Cause(ctx)) })
}

// Placed stores where a candidate and its sub-agents have their files.
func (c *Candidates) Placed(ctx context.Context, n int, ws api.WorkspaceID, copies api.CandidateCopies) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ws == "" || slices.ContainsFunc(c.stored, func(r api.Candidate) bool {
		return r.N == n && r.Workspace == string(ws) && maps.Equal(r.Copies, copies)
	}) {
		return nil // it is stored
	}
	c.rows[n-1].Workspace, c.rows[n-1].Copies = string(ws), copies
	return c.store(ctx)
}

// store stores the candidates in the task. It is called with the lock: states of a task are stored one after the other.
func (c *Candidates) store(ctx context.Context) error {
	c.stored = slices.Clone(c.rows)
	return c.cfg.Store(ctx, slices.Clone(c.rows))
}

// note changes what is known of a candidate, stores it and, if it is new, tells it.
func (c *Candidates) note(ctx context.Context, n int, told bool, change func(*api.Candidate)) {
	c.mu.Lock()
	change(&c.rows[n-1])
	row := c.rows[n-1]
	err := c.store(ctx)
	c.mu.Unlock()
	if err != nil {
		c.cfg.Logger.Error("store the candidates of a task", "task", c.cfg.Task, "err", err)
	}
	if told {
		c.cfg.Tell(ctx, row)
	}
}

// Save stores the candidates.
func (c *Candidates) Save(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store(ctx)
}

// Rows are what is known of the candidates.
func (c *Candidates) Rows() []api.Candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rows)
}

// Lint runs a lint command on the candidates that passed, if there are several: it decides between them only. command
// finds it; an empty one is none.
func (c *Candidates) Lint(ctx context.Context, command func(context.Context) (string, error)) error {
	var passed []int
	for _, r := range c.Rows() {
		if r.Passed {
			passed = append(passed, r.N)
		}
	}
	if len(passed) < 2 || ctx.Err() != nil {
		return nil
	}
	text, err := command(ctx)
	if err != nil || text == "" {
		return err
	}
	errs := make([]error, len(passed))
	var wg sync.WaitGroup
	for i, n := range passed {
		wg.Go(func() {
			c.turns <- struct{}{}
			defer func() { <-c.turns }()
			ok, err := c.all[n-1].Lint(ctx, text)
			if errs[i] = err; err != nil {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.rows[n-1].Lint = "failed"; ok {
				c.rows[n-1].Lint = "passed"
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// maxTries is how many results are tried with the tests of others, all together.
const maxTries = 24

// Compare tries the candidates that passed without more cautions than the best one with the tests that the others of them wrote. It
// begins nothing more when more returns false. What was not tried is not compared.
func (c *Candidates) Compare(ctx context.Context, more func() bool) error {
	rows := c.Rows()
	fewest := -1
	for _, r := range rows {
		if r.Passed && (fewest < 0 || r.Cautions < fewest) {
			fewest = r.Cautions
		}
	}
	var passed, writers []int
	for _, r := range rows {
		if !r.Passed || r.Cautions > fewest {
			continue
		}
		passed = append(passed, r.N)
		has, err := c.all[r.N-1].Tests(ctx)
		if err != nil {
			return err
		}
		if has {
			writers = append(writers, r.N)
		}
	}
	// tried are the results of a candidate with the tests of another one.
	tried, left := map[[2]int]bool{}, maxTries
	errs := make([]error, len(passed))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, n := range passed {
		wg.Go(func() {
			c.turns <- struct{}{}
			defer func() { <-c.turns }()
			for _, writer := range writers {
				mu.Lock()
				begin := writer != n && left > 0 && ctx.Err() == nil && more()
				if begin {
					left--
				}
				mu.Unlock()
				if !begin {
					continue
				}
				ok, err := c.all[n-1].Try(ctx, writer)
				if errs[i] = err; err != nil {
					return
				}
				mu.Lock()
				tried[[2]int{n, writer}] = ok
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range passed {
		r := &c.rows[n-1]
		r.Compared, r.Agrees, r.Fails = 0, 0, 0
		for _, other := range passed {
			mine, one := tried[[2]int{n, other}]
			its, two := tried[[2]int{other, n}]
			if !one && !two {
				continue
			}
			if r.Compared++; (mine || !one) && (its || !two) {
				r.Agrees++
			}
			if one && !mine {
				r.Fails++
			}
		}
	}
	return errors.Join(errs...)
}

// scored says what a candidate came to that has ended.
func scored(r *api.Candidate, s Result, how Entry, cause error) {
	r.State, r.Outcome, r.Passed, r.MS = api.CandidateEnded, string(s.Outcome), s.Outcome == api.OutcomeVerified, s.MS
	r.OldOnly, r.Cautions = s.OldOnly, s.Repo.CautionCount()
	r.Files, r.Rounds, r.Workspace = len(s.Repo.Files), len(s.Repo.Rounds), string(s.Repo.Workspace)
	r.Lines, r.Steps = 0, 0
	for _, f := range s.Repo.Files {
		r.Lines += f.Added + f.Deleted
	}
	for _, x := range s.Repo.Rounds {
		r.Steps += x.Steps
	}
	r.Tokens, r.CostUSD, r.Unpriced = s.Usage.InputTokens+s.Usage.OutputTokens, s.Usage.CostUSD, s.Usage.Unpriced
	r.Regressions, r.Failing, r.Judged = 0, 0, false
	if n := len(s.Repo.Rounds); n > 0 {
		r.Judged = s.Repo.Rounds[n-1].Gate != nil
		for _, g := range []*api.Gate{s.Repo.Rounds[n-1].Gate, s.Repo.Rounds[n-1].Original} {
			if g != nil && g.Tests != nil {
				r.Regressions, r.Failing = max(r.Regressions, g.Tests.Regressions), max(r.Failing, g.Tests.Failed)
			}
		}
	}
	if r.Why = s.Why; !r.Passed && errors.Is(cause, errPassed) {
		r.Why = "ended because another candidate passed"
	}
	if how != Worked && len(s.Repo.Rounds) == 0 && r.Why == "" {
		r.Why = "it did not begin"
	}
}

// ScoreOf is what decides about a candidate.
func ScoreOf(r api.Candidate) Score {
	s := Score{
		N: r.N, Changed: r.Files > 0, Passed: r.Passed, OldOnly: r.OldOnly, Judged: r.Judged, Regressions: r.Regressions, Failing: r.Failing,
		Cautions: r.Cautions, Agrees: r.Agrees, Fails: r.Fails, Lines: r.Lines,
	}
	switch r.Lint {
	case "passed":
		s.Lint = LintPassed
	case "failed":
		s.Lint = LintFailed
	}
	return s
}

// rank returns the candidates, the best first. What may be taken if none passes counts at the end alone.
func rank(rows []api.Candidate, end bool) []Standing {
	scores := make([]Score, len(rows))
	for i, r := range rows {
		scores[i] = ScoreOf(r)
		scores[i].OldOnly = scores[i].OldOnly && end
	}
	return Rank(scores)
}

// Choose says of each candidate whether it is the best one, and why. It returns the number of that one.
func (c *Candidates) Choose() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	order := rank(c.rows, true)
	for i, o := range order {
		r := &c.rows[o.N-1]
		r.Chosen = i == 0
		switch {
		case r.Why == "" || r.Chosen || r.Passed:
			r.Why = o.Why
		case !order[0].Passed: // it did not lose by its gate
			r.Why = o.Why + ". " + r.Why
		}
	}
	return order[0].N
}

// Store stores what is known of the candidates after the choice.
func (c *Candidates) Store(ctx context.Context, rows []api.Candidate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = slices.Clone(rows)
	return c.store(ctx)
}
