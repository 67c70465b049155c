package rest

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// reviewCalls are the calls of a kind of forge that [Forge.Review] needs.
type reviewCalls interface {
	// request reads the state and the head of a merge request.
	request(ctx context.Context, number int) (forge.Review, error)
	// remarks lists the remarks on a merge request with their authors. complete is false if there are more.
	remarks(ctx context.Context, number int) (all []remark, complete bool, err error)
	// self is the login of the token's user; empty if the token is not one of a user.
	self(ctx context.Context) (string, error)
	// mayWrite reports whether a person may write to the repository.
	mayWrite(ctx context.Context, by author) (bool, error)
	// checks reads the failed checks of a commit, and counts those that have not ended.
	checks(ctx context.Context, commit string) (failed []forge.Check, pending int, err error)
}

// remark is a remark with its author.
type remark struct {
	forge.Remark
	by author
}

// author is an account of a forge.
type author struct {
	ID          int64
	Login       string
	Type        string // "Bot" at GitHub
	Association string // GitHub's author_association
}

// State implements [forge.Forge].
func (f *Forge) State(ctx context.Context, number int) (string, error) {
	r, err := f.request(ctx, number)
	return r.State, err
}

// request reads the state and the head of a merge request.
func (f *Forge) request(ctx context.Context, number int) (forge.Review, error) {
	r, err := f.calls.request(ctx, number)
	if s := r.State; err == nil && s != forge.Open && s != forge.Closed && s != forge.Merged {
		err = f.errorf(api.KindUnavailable, "the answer cannot be read: a request in the state %.40q", s)
	}
	return r, err
}

// Review implements [forge.Forge].
func (f *Forge) Review(ctx context.Context, number int, known func(id string) bool) (forge.Review, error) {
	r, err := f.request(ctx, number)
	if err != nil || r.State != forge.Open {
		return r, err
	}
	if r.Head == "" {
		return r, f.errorf(api.KindUnavailable, "the answer cannot be read: a merge request without a commit")
	}
	all, complete, err := f.calls.remarks(ctx, number)
	if err != nil {
		return r, err
	}
	r.More = !complete
	all = slices.DeleteFunc(all, func(m remark) bool { return known(m.ID) })
	if err := f.judge(ctx, all); err != nil {
		return r, err
	}
	for _, m := range all {
		m.Author = m.by.Login
		r.Remarks = append(r.Remarks, m.Remark)
	}
	r.Failed, r.Pending, err = f.calls.checks(ctx, r.Head)
	return r, err
}

// judge says of each remark whether it counts. Each author is asked for once.
func (f *Forge) judge(ctx context.Context, all []remark) error {
	if len(all) == 0 {
		return nil
	}
	self, err := f.calls.self(ctx)
	if err != nil {
		return err
	}
	write := map[string]bool{}
	for i := range all {
		m := &all[i]
		switch {
		case m.by.Login == "" || m.by.ID <= 0:
			m.Ignored = forge.IgnoredBot // a deleted account, or one of the forge itself
		case m.by.Login == self:
			m.Ignored = forge.IgnoredOwn
		case m.by.Type == "Bot":
			m.Ignored = forge.IgnoredBot
		default:
			may, asked := write[m.by.Login]
			if !asked {
				if may, err = f.calls.mayWrite(ctx, m.by); err != nil {
					return err
				}
				write[m.by.Login] = may
			}
			if !may {
				m.Ignored = forge.IgnoredStranger
			}
		}
	}
	return nil
}

// missing turns an answer that something does not exist, or may not be read, into nothing.
func missing(err error) error {
	if k := api.KindOf(err); k == api.KindNotFound || k == api.KindDenied {
		return nil
	}
	return err
}

// absent turns an answer that something does not exist into nothing. A token that may not read it is an error.
func absent(err error) error {
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	return err
}

// ended are the states and conclusions of checks that ask for no change.
func ended(state string) bool {
	return slices.Contains([]string{"success", "neutral", "skipped", "warning", "manual", "stale", "canceled", "cancelled", "action_required"}, state)
}

// waiting are those of checks that have not ended.
func waiting(state string) bool {
	return slices.Contains([]string{"", "pending", "running", "created", "queued", "in_progress", "requested", "waiting", "waiting_for_resource", "preparing", "scheduled", "canceling"}, state)
}

// tally collects checks.
type tally struct {
	failed  []forge.Check
	pending int
}

// add counts a check with its state. It reports whether it failed and is shown.
func (t *tally) add(state string, c forge.Check) bool {
	switch {
	case waiting(state):
		t.pending++
	case !ended(state) && len(t.failed) < forge.MaxChecks:
		if !page(c.URL) {
			c.URL = ""
		}
		t.failed = append(t.failed, c)
		return true
	}
	return false
}
