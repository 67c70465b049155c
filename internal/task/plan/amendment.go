package plan

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
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
	owner, err := s.ownerOf(ctx, o, n, a.Paths)
	if err == nil && owner != "" {
		o.ask(n, owner+" may change them too")
	}
	return err
}

// ownerOf returns who else may change one of some files: another item that is not ended, or another plan.
func (s *Service) ownerOf(ctx context.Context, o *openPlan, n int, paths []string) (string, error) {
	owns := func(it *item) bool {
		_, _, both := overlap(append(slices.Clone(touches(it.Item)), it.Granted...), exact(paths))
		return both
	}
	for i := range o.items {
		if it := &o.items[i]; i != n && !it.Ended() && owns(it) {
			return "item " + it.ID, nil
		}
	}
	rows, err := s.cfg.Rows.OpenPlans(ctx, s.repository(o.Task))
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.ID == o.ID || r.Account != o.Account {
			continue
		}
		other, err := s.load(ctx, r)
		if err != nil {
			return "", err
		}
		for i := range other.items {
			if it := &other.items[i]; !it.Ended() && owns(it) {
				return "item " + it.ID + " of plan " + string(other.ID), nil
			}
		}
	}
	return "", nil
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
