package repo

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate/report"
	"hortus.dev/internal/task/journal"
)

// snapshot is the state of a task after one of its steps, as it is recorded.
type snapshot struct {
	Result        api.RepoResult  `json:"result"`
	Usage         api.Usage       `json:"usage,omitzero"`
	Done, Skipped []string        `json:",omitempty"`
	Left          int             `json:"left,omitempty"`
	Collected     int             `json:"collected,omitempty"`
	Report        *journal.Report `json:"report,omitempty"`
}

// keep executes a step whose result is the state of the task, and restores that state if it is recorded.
func (w *attempt) keep(ctx context.Context, name string, do func(ctx context.Context) error) error {
	executed := false
	m, err := journal.Do(ctx, w.journal, name, nil, func(ctx context.Context, _ journal.Try) (snapshot, error) {
		executed = true
		err := do(ctx)
		return w.snapshot(nil), err
	})
	if !executed {
		w.restore(m)
	}
	return err
}

func (w *attempt) snapshot(rep *loop.Report) snapshot {
	r := w.steps.receipt()
	m := snapshot{Result: w.res, Usage: w.usage, Done: r.Completed, Skipped: r.Skipped, Left: r.ProcessesLeft, Collected: w.collected}
	if rep != nil {
		r := journal.ReportOf(*rep)
		m.Report = &r
	}
	return m
}

// restore puts a recorded state in place; there is none beside an error of the journal.
func (w *attempt) restore(m snapshot) {
	if m.Result.Branch == "" {
		return
	}
	w.res, w.usage, w.collected = m.Result, m.Usage, m.Collected
	w.steps.set(m.Done, m.Skipped, m.Left)
}

// report is the report of a mark.
func (m snapshot) report() (rep loop.Report) {
	if m.Report != nil {
		rep = m.Report.Loop()
	}
	return rep
}

// fetched finds the commit that the work starts from: the recorded one, also if the branch has moved since.
func (m *repository) fetched(ctx context.Context) (err error) {
	base, err := journal.Do(ctx, m.project.journal, "fetch "+m.Name, nil, func(ctx context.Context, _ journal.Try) (cache.Commit, error) {
		if m.project.item() != nil {
			err := m.foundItem(ctx)
			return m.base, err
		}
		if m.cached(ctx) {
			return m.base, nil
		}
		err := m.fetch(ctx)
		return m.base, err
	})
	if err != nil {
		return err
	}
	if m.repo == nil {
		m.base = base
		m.project.steps.recalled(api.RepoStepEvent{Step: "fetch", Repository: m.Name})
		return m.refetch(ctx)
	}
	return m.project.takeCommits(ctx, m.Name, m.repo)
}

// refetch finds the repository with the recorded commit. On another node than the one that recorded it, it is fetched again.
func (m *repository) refetch(ctx context.Context) (err error) {
	here := false
	if m.repo, err = m.project.cfg.Git.Find(m.URL); err == nil {
		here, err = m.repo.Has(ctx, m.base.Hash)
	}
	if err != nil && api.KindOf(err) != api.KindNotFound {
		return err
	}
	if !here {
		src, err := m.project.cfg.Deliverer.Source(ctx, m.URL)
		if err != nil {
			return err
		}
		if m.repo, _, err = m.project.cfg.Git.Update(ctx, src, nil); err != nil {
			return err
		}
	}
	if err := m.project.takeCommits(ctx, m.Name, m.repo); err != nil || here {
		return err
	}
	_, err = m.repo.Resolve(ctx, m.base.Hash)
	return err
}

// readIssue reads the issue that the request is about: the recorded text, also if it has changed since.
func (w *project) readIssue(ctx context.Context) (err error) {
	if w.req.Issue == "" {
		return nil
	}
	w.issue, err = journal.Do(ctx, w.journal, "issue", nil, func(ctx context.Context, _ journal.Try) (d api.Document, err error) {
		err = w.steps.do(ctx, api.RepoStepEvent{Step: "issue", Detail: w.req.Issue}, func() (string, error) {
			issue, err := w.cfg.Deliverer.Issue(ctx, w.req.Issue)
			d = api.Document{Name: fmt.Sprint("issue ", issue.Number), Text: issue.Text()}
			return fmt.Sprintf("%s (comments: %d)", loop.ShortLine(issue.Title), len(issue.Comments)), err
		})
		return d, err
	})
	return err
}

// setupRecord is the result of a setup as it is recorded.
type setupRecord struct {
	Key      string            `json:"key,omitempty"`
	Layers   []Layer           `json:"layers,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Services []Service         `json:"services,omitempty"`

	NotInstalled []api.NotInstalled `json:"notInstalled,omitempty"`
}

// ready prepares what the commit needs. A setup that is recorded is prepared again only for its layers, which
// are there; one without layers stays without, also if it would succeed now.
func (m *repository) ready(ctx context.Context) error {
	if err := m.findGoTests(ctx); err != nil {
		return err
	}
	executed := false
	was, err := journal.Do(ctx, m.project.journal, "setup "+m.Name, nil, func(ctx context.Context, _ journal.Try) (setupRecord, error) {
		executed = true
		err := m.setup(ctx)
		p := m.prepared
		return setupRecord{p.Key, p.Layers, p.Env, p.Services, p.NotInstalled}, err
	})
	if err != nil || executed {
		return err
	}
	m.project.steps.recalled(api.RepoStepEvent{Step: "setup", Repository: m.Name})
	if len(was.Layers) > 0 {
		return m.setup(ctx)
	}
	m.prepared = SetupResult{Key: was.Key, Env: was.Env, Services: was.Services, NotInstalled: was.NotInstalled, Release: func() {}}
	return nil
}

// gateRecord is what the gate before the work found, which later gates are compared with.
type gateRecord struct {
	Gate     api.Gate        `json:"gate"`
	Commands []commandRecord `json:"commands"`
}

// commandRecord is what one command of the gate reported.
type commandRecord struct {
	Plain    bool          `json:"plain,omitempty"` // it runs as it stands
	Tests    report.Report `json:"tests"`
	Unstable []string      `json:"unstable,omitempty"`
}

// before runs the gate on what there was, or recalls what it said.
func (j *gates) before(ctx context.Context, run func(context.Context) (api.Gate, error)) (api.Gate, error) {
	executed := false
	t, err := journal.Do(ctx, j.attempt.journal, "gate before", journal.Digest(j.attempt.res.Verify), func(ctx context.Context, _ journal.Try) (t gateRecord, err error) {
		executed = true
		if t.Gate, err = run(ctx); err != nil {
			return t, err
		}
		for _, c := range j.checks {
			t.Commands = append(t.Commands, commandRecord{c.Plain, c.Tests, c.Unstable})
		}
		return t, nil
	})
	if err != nil || executed {
		return t.Gate, err
	}
	if len(t.Commands) != len(j.checks) {
		return t.Gate, api.Errorf(api.KindInternal, "the gate has %d commands, and %d reports were recorded", len(j.checks), len(t.Commands))
	}
	for i, c := range j.checks {
		if c.Tests, c.Unstable = t.Commands[i].Tests, t.Commands[i].Unstable; t.Commands[i].Plain {
			c.Plan, c.Plain = report.Plain(c.Text), true
		}
	}
	j.attempt.steps.recalled(api.RepoStepEvent{Step: "gate"})
	return t.Gate, nil
}

// agentStep names the end of the agent's part of a round.
func agentStep(n int) string { return fmt.Sprintf("agent %d", n) }

// boundary is a moment of the journal's clock: what follows does not depend on how long a sandbox took to start.
func (w *attempt) boundary(ctx context.Context, n int) error {
	_, err := journal.Do(ctx, w.journal, roundStep(n), nil, func(context.Context, journal.Try) (int, error) { return n, nil })
	return err
}

// agentEnded records the end of the agent's part of a round, or recalls it.
func (w *attempt) agentEnded(ctx context.Context, n int, rep loop.Report) (loop.Report, error) {
	executed := false
	m, err := journal.Do(ctx, w.journal, agentStep(n), nil, func(context.Context, journal.Try) (snapshot, error) {
		executed = true
		return w.snapshot(&rep), nil
	})
	if err != nil || executed {
		return rep, err
	}
	w.restore(m)
	return m.report(), nil
}

// remember goes through a round whose agent has ended: its history is built again from what was recorded, without a
// sandbox.
func (w *attempt) remember(ctx context.Context, n int, message string) (loop.Report, error) {
	start := w.project.cfg.Now()
	if err := w.boundary(ctx, n); err != nil {
		return loop.Report{}, err
	}
	rep := w.works(ctx, n, message)
	if err := w.journal.Damage(); err != nil {
		return rep, err
	}
	rep, err := w.agentEnded(ctx, n, rep)
	if err != nil {
		return rep, err
	}
	return rep, w.collectRound(ctx, n, start)
}

// collectRound commits what a round left.
func (w *attempt) collectRound(ctx context.Context, n int, start time.Time) error {
	executed := false
	err := w.keep(ctx, fmt.Sprint("collect ", n), func(ctx context.Context) error {
		executed = true
		err := w.steps.do(ctx, api.RepoStepEvent{Step: "collect", Round: n}, func() (string, error) {
			return w.collect(ctx, n, false)
		})
		w.res.Rounds[n-1].MS = w.project.cfg.Now().Sub(start).Milliseconds()
		return err
	})
	if err == nil && executed { // otherwise the files may be those of later rounds by now
		w.seal(ctx, n+1)
		err = w.leave(ctx, n+1)
	}
	return err
}

// DeliverStep is the delivery of a verified result. It is done once.
const DeliverStep = "deliver"

// storedTime bounds how long a delivery waits for the archive.
const storedTime = 30 * time.Second

// deliverOnce delivers the result.
func (w *attempt) deliverOnce(ctx context.Context) error {
	w.awaitStored(ctx)
	return w.keep(ctx, DeliverStep, w.deliver)
}

// place is workspace, but for a task that was cut after its row named its workspace and before that was recorded.
func (w *attempt) place(ctx context.Context) error {
	if before := w.project.task.Repo; before != nil && before.Workspace != "" {
		w.res.Workspace = before.Workspace
		return w.save(ctx)
	}
	return w.workspace(ctx)
}

// lost is the end of a task whose journal cannot be written, or does not fit to this build.
func (w *attempt) lost(end End) End {
	err := w.journal.Damage()
	if err == nil {
		return end
	}
	return End{Outcome: api.OutcomeLost, Error: api.AsError(api.Errorf(api.KindOf(err), "the task cannot be continued: %w", err).
		WithHint("Run the request again. To see what was recorded: hortus task show %s.", w.project.task.ID))}
}

// works lets the agent work on a message. What Hortus's own agent asks and does is recorded by itself; of a program,
// the whole turn is one step.
func (w *attempt) works(ctx context.Context, n int, message string) (rep loop.Report) {
	if !w.spec.external() {
		return w.answers.Ended(w.agent.Run(ctx, message))
	}
	executed := false
	was, _ := journal.Do(ctx, w.journal, fmt.Sprint("turn ", n), nil, func(ctx context.Context, try journal.Try) (journal.Report, error) {
		executed = true
		if try.Cut {
			message = journal.CutTurn + message
		}
		rep = w.agent.Run(ctx, message)
		return journal.ReportOf(rep), ctx.Err()
	})
	if !executed {
		rep = was.Loop()
	}
	return rep
}
