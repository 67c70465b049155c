package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
)

// Bounds of what a model is shown of a repository.
const (
	maxPaths    = 1000
	maxGuidance = 16 << 10
)

// emitter puts the calls of the planner's model into the log of a plan.
type emitter struct {
	s  *Service
	id api.PlanID
}

// Emit implements agent.Emitter.
func (e emitter) Emit(ctx context.Context, t api.EventType, data any) {
	if _, err := e.s.cfg.Log.Append(context.WithoutCancel(ctx), stream(e.id), t, data); err != nil {
		e.s.cfg.Logger.Error("append event", "plan", e.id, "type", string(t), "err", err)
	}
}

// divide brings the repository into the cache, finds the items if the request has none, and proposes them or begins.
func (s *Service) divide(ctx context.Context, id api.PlanID) {
	err := s.begin(ctx, id)
	if err == nil || ctx.Err() != nil {
		return
	}
	err = s.with(s.life, id, func(o *openPlan) error {
		if o.State != words.Planning {
			return nil
		}
		o.Outcome, o.Error = api.OutcomeFailed, api.AsError(err)
		return o.done(api.AsError(err).Message)
	})
	if err != nil {
		s.cfg.Logger.Error("end a plan that cannot begin", "plan", id, "err", err)
	}
}

// begin is divide, but for the end of a plan that cannot begin.
func (s *Service) begin(ctx context.Context, id api.PlanID) error {
	var p words.Plan
	var rec record
	err := s.with(ctx, id, func(o *openPlan) error { p, rec = o.view(), o.record; return nil })
	if err != nil {
		return err
	}
	ctx = api.WithPrincipal(ctx, rec.By)
	r, base, err := s.start(ctx, p, rec.Again)
	if err != nil {
		return err
	}
	files, err := paths(ctx, r, base.Hash)
	if err != nil {
		return err
	}
	d := division{}
	if len(p.Items) > 0 && !rec.Again {
		for _, it := range p.Items {
			d.items = append(d.items, it.Item)
		}
		d.items = Normalize(d.items, files)
		err = Check(d.items, files)
	} else {
		d, err = s.divided(ctx, r, base.Hash, files, p, rec.Note)
	}
	if err != nil {
		return err
	}
	if !rec.Again {
		if err := r.SetBranch(ctx, p.Branch, base.Hash); err != nil {
			return err
		}
	}
	return s.with(ctx, id, func(o *openPlan) error {
		if o.State != words.Planning {
			return nil
		}
		if o.Again {
			o.divided(d.items)
		} else {
			o.Commit, o.Base, o.Head = base.Hash, base.Branch, base.Hash
			o.replace(d.items)
		}
		o.Planner, o.Rejected, o.Usage = d.planner, d.rejected, o.Usage.Add(d.used)
		if o.Approve {
			return o.move(words.Proposed, "a person has to approve it")
		}
		return o.move(words.Queued, "")
	})
}

// start returns the commit that items are found for: of the remote, or the last one of the plan if it has begun.
func (s *Service) start(ctx context.Context, p words.Plan, again bool) (*cache.Repo, cache.Commit, error) {
	if again {
		r, err := s.cfg.Git.Find(p.Task.Repo.URL)
		return r, cache.Commit{Hash: p.Head, Branch: p.Base}, err
	}
	src, err := s.cfg.Source(ctx, p.Task.Repo.URL)
	if err != nil {
		return nil, cache.Commit{}, err
	}
	r, err := s.cfg.Git.Fetch(ctx, src, nil)
	if err != nil {
		return nil, cache.Commit{}, err
	}
	base, err := r.Resolve(ctx, p.Task.Repo.Ref)
	return r, base, err
}

// division is what the planner found.
type division struct {
	items    []words.Item
	planner  string
	rejected []string
	used     api.Usage
}

// divided asks the planner for items.
func (s *Service) divided(ctx context.Context, r *cache.Repo, commit string, files []string, p words.Plan, note string) (d division, err error) {
	m, err := s.cfg.Model(p.Task.Model)
	if err != nil {
		return d, err
	}
	d.planner = m.Name()
	ask, err := s.ask(ctx, r, commit, files, p)
	if err != nil {
		return d, err
	}
	if note != "" {
		ask.Request += "\n\n" + note
	}
	completed := map[string]words.Item{}
	for _, it := range p.Items {
		if p.Task.Repo.Until != "" && it.ID == words.UntilID {
			continue // it follows from the others
		}
		ask.Done = append(ask.Done, words.DoneItem{Item: it.Item, State: it.State, Why: it.Why})
		if it.State == words.Completed {
			completed[it.ID] = it.Item
		}
	}
	try := 0
	d.items, d.used, err = agent.NewDivider(m, emitter{s, p.ID}).Divide(ctx, ask, func(items []words.Item) error {
		try++
		err := checkUntil(items, p.Task, nil)
		if err == nil {
			err = checkDivision(withUntil(items, p.Task), completed, files)
		}
		e := words.PlannedEvent{Try: try, Items: ids(items)}
		if err != nil {
			e.Refused = err.Error()
			d.rejected = append(d.rejected, e.Refused)
		}
		emitter{s, p.ID}.Emit(ctx, words.EventPlanned, e)
		return err
	})
	d.items = keep(Normalize(withUntil(d.items, p.Task), files), completed)
	return d, err
}

// keep returns items with those that are completed as they were.
func keep(items []words.Item, completed map[string]words.Item) []words.Item {
	for i, it := range items {
		if was, ok := completed[it.ID]; ok {
			items[i] = was
		}
	}
	return items
}

// checkDivision refuses items without those that are completed.
func checkDivision(items []words.Item, completed map[string]words.Item, files []string) error {
	for id := range completed {
		if !slices.ContainsFunc(items, func(it words.Item) bool { return it.ID == id }) {
			return api.Errorf(api.KindInvalid, "item %s is completed and missing: keep it", id)
		}
	}
	return Check(keep(Normalize(items, files), completed), files)
}

// paths lists the files of a commit.
func paths(ctx context.Context, r *cache.Repo, commit string) ([]string, error) {
	entries, err := r.Files(ctx, commit)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Path
	}
	return out, nil
}

// files lists the files of a plan's last commit.
func (s *Service) files(ctx context.Context, o *openPlan) ([]string, error) {
	r, err := s.cfg.Git.Find(o.Task.Repo.URL)
	if err != nil {
		return nil, err
	}
	return paths(ctx, r, o.Head)
}

// ask is what the planner is shown.
func (s *Service) ask(ctx context.Context, r *cache.Repo, commit string, files []string, p words.Plan) (words.DivideRequest, error) {
	policy, err := filerule.Compile(p.Task.Repo.FilePolicy)
	if err != nil {
		return words.DivideRequest{}, err
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return policy.OffLimits(f) != "" })
	out := words.DivideRequest{Request: p.Task.Request, Gate: p.Task.Repo.Verify}
	if out.Gate == "" {
		c, err := gate.Detect(gate.Tree{Paths: files, Read: func(name string) []byte {
			b, err := r.ReadFile(ctx, commit, name, gate.MaxFile)
			if err != nil {
				return nil
			}
			return b
		}})
		if err == nil {
			out.Gate = c.Text
		}
	}
	if out.Files = files; len(files) > maxPaths {
		out.Files, out.Tree = nil, loop.Tree(files)
	}
	for _, name := range []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md"} {
		if !slices.Contains(files, name) {
			continue
		}
		text, err := r.ReadFile(ctx, commit, name, maxGuidance)
		if err != nil {
			continue // one that is so long is for the agents to look into
		}
		out.Guidance = append(out.Guidance, api.Document{Name: name, Text: string(text)})
	}
	for _, d := range p.Task.Repo.Context {
		out.Documents = append(out.Documents, d.Name)
	}
	if s.cfg.Titles != nil {
		titles, err := s.cfg.Titles(ctx, p.Account, p.Task.Repo.URL, p.Task.Repo.Ref)
		if err != nil {
			return out, err
		}
		for _, name := range slices.Sorted(maps.Keys(titles)) {
			out.Documents = append(out.Documents, strings.TrimSuffix(name+": "+titles[name], ": "))
		}
	}
	others, err := s.others(ctx, p)
	for _, c := range others {
		out.Taken = append(out.Taken, c.Touches...)
	}
	return out, err
}
