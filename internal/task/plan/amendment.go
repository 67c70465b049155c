package plan

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/task/workstream"
)

// maxAmendments is how often an item may ask for files.
const maxAmendments = 3

// wants asks for files that an item needs and may not change: the planner if nobody else may change them, and a person otherwise. policy is
// that of the item's task.
func (s *Service) wants(ctx context.Context, o *openPlan, n int, wanted []api.WantedFile, policy api.FilePolicy) error {
	a := o.amend(n, wanted)
	if why := o.never(policy, a.Paths); why != "" {
		o.answer(n, false, "the file policy", why)
		return nil
	}
	owner, err := s.take(ctx, o, n, a.Paths, func() error { return nil })
	if err == nil && owner != "" {
		o.ask(n, owner+" may change them too")
	}
	return err
}

// ownerOf returns which other item of the plan, that is not ended, may change one of some files; "" if none does.
func (o *openPlan) ownerOf(n int, paths []string) string {
	for i := range o.items {
		it := &o.items[i]
		if i != n && !it.Ended() && workstream.Overlap(append(slices.Clone(touches(it.Item)), it.Granted...), exact(paths)) {
			return "item " + it.ID
		}
	}
	return ""
}

// take calls grant if nobody else may change some files: no other item, and nobody else who works on the repository. Otherwise it returns
// who may. While grant is called, nobody begins who changes them.
func (s *Service) take(ctx context.Context, o *openPlan, n int, paths []string, grant func() error) (owner string, err error) {
	if owner := o.ownerOf(n, paths); owner != "" {
		return owner, nil
	}
	c := o.claim(s.repository(o.Task))
	c.Touches = exact(paths)
	with, taken, err := s.cfg.Workstreams.Extend(ctx, o.Account, []workstream.Claim{c}, o.overlap(), grant)
	if api.KindOf(err) == api.KindConflict && len(with) > 0 {
		err = nil // it is refused
	}
	if err != nil || taken {
		return "", err
	}
	return list(with), nil
}

// exact makes globs of paths that match nothing else.
func exact(paths []string) (out []string) {
	escape := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	for _, p := range paths {
		out = append(out, "/"+escape.Replace(p))
	}
	return out
}

// answered reports whether an item has the answer that it waited for, and does not continue yet: its plan is paused.
func answered(it *item) bool {
	return it.Phase == words.Asks && len(it.Amendments) > 0 && it.Amendments[len(it.Amendments)-1].Answer != ""
}

// answer stores the answer to the amendment of the n-th item. The item continues when the plan runs.
func (o *openPlan) answer(n int, grant bool, by, reason string) {
	it := &o.items[n]
	a := &it.Amendments[len(it.Amendments)-1]
	a.Answer, a.By, a.Reason, it.Question = "denied", by, reason, ""
	list, because := strings.Join(a.Paths, ", "), ""
	if reason != "" {
		because = ": " + strings.TrimSuffix(reason, ".")
	}
	why := "it may not change " + list + " (" + by + ")" + because
	it.Message = "You may not change " + list + because + ". Do the work without that, or say why it is not possible."
	if grant {
		a.Answer = "granted"
		it.Granted = append(it.Granted, exact(a.Paths)...)
		why = "it may change " + list + " (" + by + ")" + because
		it.Message = "You may change " + list + " too. Your earlier work is in the workspace. Continue."
	}
	o.set(n, words.InProgress, words.Asks, why)
	o.tell(words.EventAmendment, words.AmendmentEvent{Item: it.ID, Amendment: *a})
}

// proceed continues the items whose amendments were answered, on the last commit of the plan.
func (s *Service) proceed(ctx context.Context, o *openPlan) {
	for n := range o.items {
		it := &o.items[n]
		if !answered(it) {
			continue
		}
		start, err := s.carry(ctx, o, it.Last())
		if err != nil {
			o.fail(n, "its work could not be put on the last commit of the plan: "+api.AsError(err).Message, api.HintOf(err))
			continue
		}
		s.try(o, n, it.Why, start)
	}
}
