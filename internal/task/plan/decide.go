package plan

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git"
)

// decideTime bounds how long the planner's model has for an answer.
const decideTime = 3 * time.Minute

// never returns why an item gets one of some files in no case, also if a person would grant it: the file policy of the plan, or what belongs to git or to
// the platform. own is the policy of the item's task, of which the writable files are those of the item.
func (o *openPlan) never(own api.FilePolicy, paths []string) string {
	own.Writable = o.Task.Repo.FilePolicy.Writable
	rules, err := filerule.Compile(own)
	if err != nil {
		return "the file policy of the plan cannot be read"
	}
	for _, p := range paths {
		first, _, _ := strings.Cut(p, "/")
		switch {
		case strings.EqualFold(first, ".hortus"), slices.ContainsFunc(strings.Split(p, "/"), func(part string) bool { return strings.EqualFold(part, ".git") }):
			return p + " belongs to git or to Hortus"
		case rules.Refuse(p) != "":
			return p + ": " + rules.Refuse(p)
		}
	}
	return ""
}

// undecided reports whether an item waits for the answer of the planner.
func undecided(it *item) bool {
	return it.Phase == words.Asks && it.Question == "" && len(it.Amendments) > 0 && !answered(it)
}

// decide has the planner's model answer the amendment of an item. If it gives no answer, or if others may change the files
// meanwhile, a person is asked.
func (s *Service) decide(ctx context.Context, id api.PlanID, name string) {
	var req words.AmendRequest
	var model, url, head string
	var by api.Principal
	asks := 0
	err := s.with(ctx, id, func(o *openPlan) error {
		n := o.index(name)
		if n < 0 || !undecided(&o.items[n]) {
			return nil
		}
		it := &o.items[n]
		asks = len(it.Amendments)
		a := it.Amendments[asks-1]
		req = words.AmendRequest{Request: o.Task.Request, Item: it.Item, Why: a.Why}
		for _, p := range a.Paths {
			req.Files = append(req.Files, words.AmendFile{Path: p})
		}
		model, url, head, by = o.Task.Model, o.Task.Repo.URL, o.Head, o.By
		return nil
	})
	if err != nil || asks == 0 {
		return // the driver says it
	}
	who := "the planner (" + model + ")"
	answer, used, err := s.verdict(api.WithPrincipal(ctx, by), id, model, url, head, req)
	if ctx.Err() != nil {
		return // the next daemon asks again
	}
	err = s.with(s.life, id, func(o *openPlan) error {
		n := o.index(name)
		if n < 0 || o.Canceling {
			return nil
		}
		it := &o.items[n]
		o.Usage, it.Usage = o.Usage.Add(used), it.Usage.Add(used)
		o.touch(n)
		if !undecided(it) || len(it.Amendments) != asks {
			return nil
		}
		if err != nil {
			o.ask(n, who+" gave no answer: "+api.AsError(err).Message)
			return nil
		}
		reason := git.Sanitize(answer.Reason, len(answer.Reason))
		if answer.Answer != words.Grant {
			o.answer(n, false, who, reason)
			return nil
		}
		owner, err := s.take(s.life, o, n, it.Amendments[asks-1].Paths, func() error {
			o.answer(n, true, who, reason)
			return s.store(s.life, o, s.cfg.Owner)
		})
		if err == nil && owner != "" {
			o.ask(n, owner+" may change them too")
		}
		return err
	})
	if err != nil && s.life.Err() == nil {
		s.cfg.Logger.Error("store the answer to an amendment", "plan", id, "item", name, "err", err)
	}
}

// verdict asks the planner's model.
func (s *Service) verdict(ctx context.Context, id api.PlanID, model, url, head string, req words.AmendRequest) (words.AmendAnswer, api.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	r, err := s.cfg.Git.Find(url)
	if err != nil {
		return words.AmendAnswer{}, api.Usage{}, err
	}
	entries, err := r.Files(ctx, head)
	if err != nil {
		return words.AmendAnswer{}, api.Usage{}, err
	}
	sizes := make(map[string]int64, len(entries))
	for _, e := range entries {
		sizes[e.Path] = e.Size
	}
	for i := range req.Files {
		size, ok := sizes[req.Files[i].Path]
		req.Files[i].Bytes, req.Files[i].New = size, !ok
	}
	m, err := s.cfg.Model(model)
	if err != nil {
		return words.AmendAnswer{}, api.Usage{}, err
	}
	return agent.NewAmender(m, emitter{s, id}).Answer(ctx, req)
}

// ask asks a person about the amendment of the n-th item.
func (o *openPlan) ask(n int, why string) {
	it := &o.items[n]
	it.Question = fmt.Sprintf("May it change them? %s. To answer: hortus plan answer %s %s --grant, or --deny", strings.TrimSuffix(why, "."), o.ID, it.ID)
	o.set(n, words.InProgress, words.Asks, it.Why)
}

// amend notes what an item asks for.
func (o *openPlan) amend(n int, wanted []api.WantedFile) *words.Amendment {
	it := &o.items[n]
	a := words.Amendment{}
	for _, w := range wanted {
		a.Paths = append(a.Paths, path.Clean(w.Path))
		if w.Why != "" && a.Why == "" {
			a.Why = w.Why
		}
	}
	it.Amendments = append(it.Amendments, a)
	o.set(n, words.InProgress, words.Asks, "needs "+strings.Join(a.Paths, ", ")+map[bool]string{true: ": " + a.Why}[a.Why != ""])
	o.tell(words.EventAmendment, words.AmendmentEvent{Item: it.ID, Amendment: a})
	return &it.Amendments[len(it.Amendments)-1]
}
