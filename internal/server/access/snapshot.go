package access

import (
	"context"
	"strings"

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
		err = s.cfg.Rates.Create(p, 1)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	return s.cfg.Saver.Snapshot(ctx, id, req)
}

// Fork makes children of a sandbox, which belong to its account.
func (s *Sandboxes) Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error) {
	return s.cfg.Quota.ForkFor(ctx, id, req, "")
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
		return s.cfg.Rows.SnapshotPage(ctx, "", all, page)
	}
	if rest, ok := strings.CutPrefix(page.Cursor, operatorCursor); ok {
		page.Cursor = rest
		rows, next, err := s.cfg.Rows.TemplatePage(ctx, page)
		if next != "" {
			next = operatorCursor + next
		}
		return rows, next, err
	}
	rows, next, err := s.cfg.Rows.SnapshotPage(ctx, p.Account, all, page)
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
	more, next, err := s.cfg.Rows.TemplatePage(ctx, api.PageRequest{Limit: most - len(rows)})
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
	row, err := s.cfg.Saver.GetSnapshot(ctx, id)
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
		return s.cfg.Saver.FindSnapshot(ctx, nameOrPrefix)
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
	return s.cfg.Rows.FindSnapshotOf(ctx, p.Account, nameOrPrefix)
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
	return s.cfg.Saver.RemoveSnapshot(ctx, id)
}

// CreateTemplate makes a template of the caller's account, which hides the
// operator's of the same name from it.
func (s *Sandboxes) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (api.Snapshot, error) {
	return s.cfg.Quota.CreateTemplate(ctx, req, progress)
}
