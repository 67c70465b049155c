package repo

import (
	"cmp"
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge/policy"
)

// stack delivers a merge request for each completed item of a plan, in the order in which the items were merged. The branch of each is the
// plan's up to the commit of the item, and its target is the branch of the one before. Nothing is pushed before all are allowed. A repeated
// delivery finds what there is.
func (w *attempt) stack(ctx context.Context) error {
	m, it := w.project.members[0], w.project.item()
	var items []api.ItemEvidence
	for _, e := range it.Items {
		if e.Commit != "" && e.Order > 0 {
			items = append(items, e)
		}
	}
	slices.SortFunc(items, func(a, b api.ItemEvidence) int { return cmp.Compare(a.Order, b.Order) })
	if len(items) == 0 {
		w.res.Delivery = &api.Delivery{Error: api.AsError(api.Errorf(api.KindConflict, "no item of plan %s has a commit: there is nothing to stack", it.Plan))}
		return w.save(ctx)
	}
	all := make([]*delivery, len(items))
	base := m.base.Hash
	for i, item := range items {
		all[i] = w.part(m, item, i+1, len(items), base)
		base = item.Commit
	}
	err := w.bring(ctx, all)
	w.res.Stack = nil
	for _, d := range all {
		w.res.Stack = append(w.res.Stack, *d.out)
		if d.out.Number > 0 || w.res.Delivery == nil {
			last := *d.out
			w.res.Delivery = &last
		}
	}
	if err != nil {
		w.res.Delivery.Error = api.AsError(err)
	} else {
		w.res.Delivery.Error = nil
	}
	if err := w.save(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// part is the delivery of an item that lies on a commit.
func (w *attempt) part(m *repository, item api.ItemEvidence, n, of int, base string) *delivery {
	res := w.res
	res.Commit, res.Head, res.Title, res.Summary = base, item.Commit, item.Title, ""
	earlier := append(slices.Clone(w.project.item().Stack), w.res.Stack...)
	was := &api.Delivery{}
	for i := range earlier {
		if earlier[i].Item == item.ID {
			was = &earlier[i]
		}
	}
	d := m.delivery(res, w.usage, was, item.ID)
	d.base, d.p.Part = base, &StackPart{Item: item, N: n, Of: of}
	return d
}

// bring asks the policy for all parts, and then delivers one after the other. The first that fails ends it: the others lie on it.
func (w *attempt) bring(ctx context.Context, all []*delivery) error {
	for i, d := range all {
		if i > 0 {
			d.lieOn(all[i-1])
		}
		if err := d.propose(ctx); err != nil {
			d.out.Error = api.AsError(err)
			return err
		}
		touched := d.part.Files
		d.part.Files = nil
		for _, f := range touched {
			if slices.ContainsFunc(d.p.Files, func(p policy.File) bool { return p.Path == f.Path }) {
				d.part.Files = append(d.part.Files, f)
			}
		}
	}
	var before *api.Delivery
	for i, d := range all {
		if i > 0 {
			d.lieOn(all[i-1]) // whose branch may have got another name
		}
		if d.p.Part.Before = before; !d.merged {
			if err := d.bring(ctx); err != nil {
				d.out.Error = api.AsError(err)
				return err
			}
		}
		before = d.out
	}
	return nil
}

// lieOn has a merge request aim at the branch of the one before it, unless it was opened with another target.
func (w *delivery) lieOn(before *delivery) {
	w.p.Target = before.out.Branch
	if e := w.p.Earlier; e != nil {
		w.p.Target = cmp.Or(e.Target, w.p.Target)
	}
	w.out.Target = w.p.Target
}
