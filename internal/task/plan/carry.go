package plan

import (
	"context"
	"io"
	"os"
	"slices"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/store"
)

// Archive has the commits of plans for the other nodes of a fleet.
type Archive interface {
	// Put stores what write writes, and returns its name. label is what it is of.
	Put(ctx context.Context, label string, write func(w io.Writer) error) (ref string, err error)
	// Get calls read with what was stored.
	Get(ctx context.Context, ref, label string, read func(f *os.File) error) error
}

// keepTime bounds how long a merge waits for the archive.
const keepTime = 30 * time.Second

// Archived returns the name of what the archive has of a plan; empty for nothing.
func Archived(row store.Plan) (string, error) {
	o, err := read(row)
	if err != nil {
		return "", err
	}
	return o.Archived, nil
}

// commits are those that the rows of a plan name and the remote may not have.
func (o *openPlan) commits() (all []string) {
	all = append(all, o.Head)
	for i := range o.items {
		it := &o.items[i]
		if all = append(all, it.Start); it.State == words.InProgress {
			t := it.Last()
			all = append(all, t.Base, t.Start, t.Head, t.Merged)
		}
	}
	all = slices.DeleteFunc(all, func(c string) bool { return c == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// has are the commits that a repository has.
func has(ctx context.Context, r *cache.Repo, all []string) (found []string, err error) {
	for _, c := range all {
		ok, err := r.Has(ctx, c)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, c)
		}
	}
	return found, nil
}

// keepCommits stores the commits of a plan, and those that its rows are about to name, for other nodes. It returns the name of what is stored; empty
// if nothing is. The plan continues in any case: then no other node can.
func (s *Service) keepCommits(ctx context.Context, id api.PlanID, r *cache.Repo, more ...string) string {
	if s.cfg.Archive == nil {
		return ""
	}
	var all []string
	err := s.with(ctx, id, func(o *openPlan) error { all = o.commits(); return nil })
	if err == nil {
		all, err = has(ctx, r, slices.DeleteFunc(append(all, more...), func(c string) bool { return c == "" }))
	}
	ref := ""
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, keepTime)
		defer cancel()
		ref, err = s.cfg.Archive.Put(ctx, string(id), func(w io.Writer) error {
			_, err := r.Pack(ctx, w, all...)
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("the commits of a plan are not in the archive: another node cannot continue it", "plan", id, "err", err)
	}
	return ref
}

// Bring gets the commits of plans here whose owners have ended, before their tasks continue. It returns how many plans needed some.
func (s *Service) Bring(ctx context.Context, gone func(api.OwnerID) bool) (n int, err error) {
	rows, err := s.cfg.Rows.OpenPlans(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if row.Owner == s.cfg.Owner || !gone(row.Owner) {
			continue
		}
		o, err := s.load(ctx, row)
		if err == nil && o.Head != "" {
			var did bool
			if did, err = s.bring(ctx, o); did {
				n++
			}
		}
		if err != nil { // what is missing is found when the plan is taken over
			s.cfg.Logger.Error("get the commits of a plan", "plan", row.ID, "err", err)
		}
	}
	return n, nil
}

// bring gets the commits of a plan here, and reports whether some were missing.
func (s *Service) bring(ctx context.Context, o *openPlan) (bool, error) {
	want := o.commits()
	r, err := s.cfg.Git.Find(o.Task.Repo.URL)
	if err == nil {
		if found, err := has(ctx, r, want); err != nil || len(found) == len(want) {
			return false, err
		}
	} else if api.KindOf(err) != api.KindNotFound {
		return false, err
	}
	src, err := s.cfg.Source(api.WithPrincipal(ctx, o.By), o.Task.Repo.URL)
	if err != nil {
		return true, err
	}
	if r, err = s.cfg.Git.Fetch(ctx, src, nil); err != nil {
		return true, err
	}
	if o.Archived != "" && s.cfg.Archive != nil {
		if err := s.cfg.Archive.Get(ctx, o.Archived, string(o.ID), func(f *os.File) error { return r.Unpack(ctx, f, o.Head) }); err != nil {
			return true, err
		}
	}
	if found, err := has(ctx, r, []string{o.Head}); err != nil || len(found) == 0 {
		return true, err
	}
	return true, r.SetBranch(ctx, o.Branch, o.Head)
}

// missed changes a plan that was taken over and some of whose commits are on another node: an item whose result is lost is done again, and
// without the last commit the plan is lost.
func (s *Service) missed(ctx context.Context, o *openPlan) error {
	if o.Head == "" || o.State == words.Done {
		return nil
	}
	here := func(commit string) (bool, error) {
		r, err := s.cfg.Git.Find(o.Task.Repo.URL)
		if api.KindOf(err) == api.KindNotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return r.Has(ctx, commit)
	}
	ok, err := here(o.Head)
	if err != nil {
		return err
	}
	if !ok {
		o.Outcome = api.OutcomeLost
		o.Error = api.Errorf(api.KindUnavailable, "the commits of plan %s are on the disk of a node that has ended", o.ID).WithHint("make the plan again")
		return o.done(o.Error.Message)
	}
	for n := range o.items {
		it := &o.items[n]
		if it.State != words.InProgress || it.Phase != words.Merges && it.Phase != words.Checks {
			continue
		}
		t := it.Last()
		if t.Head != "" {
			if ok, err = here(t.Head); err != nil {
				return err
			}
			if !ok {
				s.try(o, n, "its result is on the disk of a node that has ended", t.Start)
				continue
			}
		}
		if t.Merged != "" && it.Phase == words.Checks {
			if ok, err = here(t.Merged); err != nil {
				return err
			}
			if !ok && t.Head != "" {
				t.Check = ""
				o.set(n, words.InProgress, words.Merges, "it is merged again")
			}
		}
	}
	return nil
}
