package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
)

// withUntil returns items with the one that continues the work until the command of the plan passes, if the plan has such a command. It is
// the last one, and needs all others.
func withUntil(items []words.Item, t api.CreateTask) []words.Item {
	if t.Repo.Until == "" {
		return items
	}
	items = withoutUntil(items)
	it := words.Item{
		ID: words.UntilID, Title: "Continue until it passes: " + words.Item{Request: t.Repo.Until}.Name(),
		Request: "All parts of this request are done and merged:\n\n" + head(t.Request, words.MaxRequest/2) + "\n\nThis command does not pass on the whole:\n\n" +
			head(t.Repo.Until, words.MaxRequest/4) + "\n\nFind out why, and complete the work.",
	}
	for _, other := range items {
		it.Needs = append(it.Needs, other.ID)
	}
	return append(items, it)
}

// withoutUntil returns items without that one.
func withoutUntil(items []words.Item) []words.Item {
	return slices.DeleteFunc(slices.Clone(items), func(it words.Item) bool { return it.ID == words.UntilID })
}

// checkUntil refuses another item with the id of the one that continues the work, if the plan has that. have is what the plan has now.
func checkUntil(items []words.Item, t api.CreateTask, have []words.Item) error {
	if t.Repo.Until == "" {
		return nil
	}
	for _, it := range items {
		if it.ID != words.UntilID {
			continue
		}
		n := slices.IndexFunc(have, func(h words.Item) bool { return h.ID == words.UntilID })
		if n >= 0 {
			it.Needs = have[n].Needs // which follow from the others
		}
		if n < 0 || !same(it, have[n]) {
			return api.Errorf(api.KindInvalid, "the id %s is that of the item that continues until the command passes", words.UntilID).
				WithHint("give the item another id, or leave out --until")
		}
	}
	return nil
}

// continues reports whether an item is the one that continues the work until the command of the plan passes.
func (o *openPlan) continues(id string) bool { return o.Task.Repo.Until != "" && id == words.UntilID }

// probe runs the command on the last commit before an agent is started: it may pass already.
func (s *Service) probe(o *openPlan, n int) {
	it := &o.items[n]
	it.Tries = append(it.Tries, words.Try{Base: o.Head, Merged: o.Head, Check: api.NewTaskID(), StartedAt: o.now})
	o.set(n, words.InProgress, words.Checks, "the command runs on the whole result")
}

// probed takes how the command ended that was run before an agent. If it does not pass, agents begin.
func (s *Service) probed(o *openPlan, n int, t api.Task) {
	it := &o.items[n]
	it.Last().EndedAt, it.Last().Outcome = o.now, t.Outcome
	if t.Outcome == api.OutcomeVerified {
		it.Gate = "passed in task " + string(t.ID)
		o.set(n, words.Completed, "", "the command passes, and no agent was needed")
		return
	}
	it.Message = strings.TrimSpace(it.Message + "\n\nHow the command ended: " + t.Diagnosis + output(t))
	s.try(o, n, cmp.Or(t.Diagnosis, "the command does not pass"), it.Start)
}

// again is the question to a person whose plan ended without success in its last item.
func (o *openPlan) again() string {
	return "What should the next pass do in another way? This continues the work: hortus plan retry " + string(o.ID) + " " + words.UntilID + " -m TEXT"
}

// resumes returns the commit with the work of an earlier try that the item continues after a person has it tried again; "" for none.
func (o *openPlan) resumes(it *item) string {
	if t := it.Last(); o.continues(it.ID) && t != nil && t.Base == o.Head {
		return t.Head
	}
	return ""
}

// stopped says why the passes of the last item ended without success; "" if they did not.
func (o *openPlan) stopped() string {
	n := o.index(words.UntilID)
	if n < 0 || !o.continues(words.UntilID) || o.items[n].State != words.Failed {
		return ""
	}
	why, _, _ := strings.Cut(o.items[n].Why, ". ")
	why = strings.TrimSuffix(why, ".")
	if t := o.items[n].Last(); t != nil && t.Stopped != "" {
		return fmt.Sprintf("the command does not pass (%s): %s", t.Stopped, why)
	}
	return "the command does not pass: " + why
}
