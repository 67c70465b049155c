package access

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
)

// visible reports whether the caller sees a snapshot: its own ones, and the operator's
// templates.
func visible(p api.Principal, s api.Snapshot) bool {
	return p.May(s.Account) || p.Role == api.RoleUser && s.StartsFor(p.Account) && s.State == api.SnapshotReady
}

// Snapshot saves a sandbox. What is saved belongs to the sandbox's account.
func (s *Sandboxes) Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error) {
	p, err := s.may(ctx, id)
	if err == nil {
		err = s.rates.create(p, 1)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	return s.m.Snapshot(ctx, id, req)
}

// Fork makes children of a sandbox, which belong to its account.
func (s *Sandboxes) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	return TaskForks{s}.ForkFor(ctx, id, req, "")
}

// TaskForks forks sandboxes for tasks.
type TaskForks struct{ s *Sandboxes }

// NewTaskForks makes TaskForks that keep to the rules of sandboxes.
func NewTaskForks(s *Sandboxes) TaskForks { return TaskForks{s} }

// ForkFor is Fork for a task, which the children and their workspaces belong to; "" for none.
func (f TaskForks) ForkFor(ctx context.Context, id api.SandboxID, req api.ForkSandbox, task api.TaskID) (api.ForkResult, error) {
	s := f.s
	p, err := s.may(ctx, id)
	if err != nil {
		return api.ForkResult{Parent: id}, err
	}
	if p.Ceilings.TTLMS > 0 && req.TTLMS > p.Ceilings.TTLMS {
		return api.ForkResult{Parent: id}, ttlExceeded(req.TTLMS, p.Ceilings.TTLMS)
	}
	req.Key, req.MaxTTLMS, req.MaxEgress = p.Key, p.Ceilings.TTLMS, p.Ceilings.Egress
	// The manager refuses an invalid number of children.
	n := min(max(req.Count, 1), api.MaxForks)
	out := api.ForkResult{Parent: id}
	if err := s.rates.create(p, n); err != nil {
		return out, err
	}
	err = s.ceilings.create(ctx, p, n, func() (api.Limits, error) {
		row, err := s.m.Get(ctx, id)
		return row.Limits, err
	}, func() (made []api.Sandbox, err error) {
		out, err = s.m.ForkFor(ctx, id, req, task)
		for _, c := range out.Children {
			if c.Sandbox != nil {
				made = append(made, *c.Sandbox)
			}
		}
		return made, err
	})
	return out, err
}

// operatorCursor begins the cursors of the operator's templates in a user's list of snapshots.
const operatorCursor = "o."

// SnapshotPage returns one page of what the caller may see of what was saved: its own,
// the newest first, then templates of the operator's.
func (s *Sandboxes) SnapshotPage(ctx context.Context, all bool, page api.PageRequest) ([]api.Snapshot, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	if p.Role == api.RoleAdmin {
		return s.rows.SnapshotPage(ctx, "", all, page)
	}
	if rest, ok := strings.CutPrefix(page.Cursor, operatorCursor); ok {
		page.Cursor = rest
		rows, next, err := s.rows.TemplatePage(ctx, page)
		if next != "" {
			next = operatorCursor + next
		}
		return rows, next, err
	}
	rows, next, err := s.rows.SnapshotPage(ctx, p.Account, all, page)
	if err != nil || next != "" {
		return rows, next, err
	}
	most, err := page.Rows()
	if err != nil {
		return nil, "", err
	}
	if len(rows) == most {
		return rows, operatorCursor, nil
	}
	more, next, err := s.rows.TemplatePage(ctx, api.PageRequest{Limit: most - len(rows)})
	if next != "" {
		next = operatorCursor + next
	}
	return append(rows, more...), next, err
}

func (s *Sandboxes) getSnapshot(ctx context.Context, id api.SnapshotID) (api.Principal, api.Snapshot, error) {
	p, err := caller(ctx)
	if err != nil {
		return p, api.Snapshot{}, err
	}
	row, err := s.m.GetSnapshot(ctx, id)
	if err == nil && !visible(p, row) {
		err = notFound("snapshot", string(id))
	}
	if err != nil {
		return p, api.Snapshot{}, err
	}
	return p, row, nil
}

// GetSnapshot returns a snapshot that the caller may see.
func (s *Sandboxes) GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	_, row, err := s.getSnapshot(ctx, id)
	return row, err
}

// FindSnapshot returns what a template's name or a prefix stands for to the caller.
func (s *Sandboxes) FindSnapshot(ctx context.Context, nameOrPrefix string) (api.SnapshotID, error) {
	p, err := caller(ctx)
	if err != nil {
		return "", err
	}
	if p.Role == api.RoleAdmin {
		return s.m.FindSnapshot(ctx, nameOrPrefix)
	}
	for page := (api.PageRequest{Limit: api.MaxPage}); nameOrPrefix != ""; {
		// Its own come first, and hide the operator's.
		rows, next, err := s.SnapshotPage(ctx, false, page)
		if err != nil {
			return "", err
		}
		for _, o := range rows {
			if o.Name == nameOrPrefix && o.State == api.SnapshotReady {
				return o.ID, nil
			}
		}
		if page.Cursor = next; next == "" {
			break
		}
	}
	return s.rows.FindSnapshotOf(ctx, p.Account, nameOrPrefix)
}

// RemoveSnapshot removes a snapshot of the caller's.
func (s *Sandboxes) RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error) {
	p, row, err := s.getSnapshot(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	if !p.May(row.Account) {
		return api.Snapshot{}, denied("removing a template of the operator")
	}
	return s.m.RemoveSnapshot(ctx, id)
}

// CreateTemplate makes a template of the caller's account, which hides the
// operator's of the same name from it.
func (s *Sandboxes) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Snapshot{}, err
	}
	if err := checkIsolation(ctx, p, s.m, req.Isolation); err != nil {
		return api.Snapshot{}, err
	}
	if err := s.rates.create(p, 1); err != nil {
		return api.Snapshot{}, err
	}
	req.Account, req.Key, req.MaxTTLMS, req.MaxEgress = p.Account, p.Key, p.Ceilings.TTLMS, p.Ceilings.Egress
	if most := p.Ceilings.TTLMS; most > 0 {
		// Its sandbox lives as long as its commands may take, one after the other.
		each := req.TimeoutMS
		if each == 0 {
			each = (10 * time.Minute).Milliseconds()
		}
		if n := int64(len(req.Run)); each > 0 && n > 0 && each > most/n {
			return api.Snapshot{}, ttlExceeded(min(each, most)*n, most)
		}
	}
	box := api.CreateSandbox{Isolation: req.Isolation, Template: req.From, Limits: req.Limits, Env: req.Env, Egress: req.Egress, Account: req.Account, MaxEgress: req.MaxEgress}
	var out api.Snapshot
	err = s.ceilings.create(ctx, p, 1, s.limits(ctx, box), func() ([]api.Sandbox, error) {
		var err error
		out, err = s.m.CreateTemplate(ctx, req, progress)
		return nil, err // its sandbox has ended
	})
	return out, err
}
