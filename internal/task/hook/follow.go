package hook

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// startTime is how long another daemon may take to create the task of a request.
const startTime = time.Minute

// Recover finds out what became of the requests that an earlier daemon was starting, and follows the tasks that run. The tasks were
// recovered before. It may be called again when tasks of another daemon were taken over.
func (s *Service) Recover(ctx context.Context) error {
	all, err := s.cfg.Rows.OpenHookEvents(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		row, err := s.cfg.Repositories.Get(ctx, e.Repository)
		if err != nil {
			return err
		}
		if e.State == api.HookStarting {
			_, err := s.cfg.Task(ctx, e.Task)
			switch {
			case api.KindOf(err) == api.KindNotFound && s.cfg.Follows != nil && s.now().Sub(e.At) < startTime:
				continue
			case api.KindOf(err) == api.KindNotFound:
				e.State, e.Task, e.Reason = api.HookRefused, "", "the daemon ended before the task was started; ask again with another comment, or add the label again"
				s.update(ctx, api.EventHookReceived, e)
				continue
			case err != nil:
				return err
			}
			if !s.follows(ctx, e.Task) {
				continue
			}
			e.State = api.HookStarted
			s.update(ctx, api.EventHookStarted, e)
		} else if !s.follows(ctx, e.Task) {
			continue
		}
		s.goesOnce(row, e)
	}
	return nil
}

// follows reports whether the task of a request is followed here.
func (s *Service) follows(ctx context.Context, id api.TaskID) bool {
	if s.cfg.Follows == nil {
		return true
	}
	t, err := s.cfg.Task(ctx, id)
	return api.KindOf(err) == api.KindNotFound || err == nil && s.cfg.Follows(ctx, t)
}

// goesOnce follows a task unless that is done already.
func (s *Service) goesOnce(row api.Repository, e api.HookEvent) {
	s.mu.Lock()
	begun := s.followed[e.Task]
	s.followed[e.Task] = true
	s.mu.Unlock()
	if begun {
		return
	}
	s.goes(func(ctx context.Context) {
		s.follow(as(ctx, row), row, e)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followed, e.Task)
	})
}

// follow says on the issue that a task began and how it ended.
func (s *Service) follow(ctx context.Context, row api.Repository, e api.HookEvent) {
	if e.Told == 0 {
		t, err := s.cfg.Task(ctx, e.Task)
		if err != nil {
			s.failed(row, "read the task of a webhook", err)
		} else {
			s.tell(ctx, row, &e, forge.TaskStarted(e.Task, s.page(e.Task), e.Sender, t.Create.Request))
		}
	}
	t, err := s.cfg.Engine.Wait(ctx, e.Task)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		t.Outcome = api.OutcomeLost // somebody removed it
	case err != nil || t.State != api.TaskDone:
		if ctx.Err() == nil && err != nil {
			s.failed(row, "wait for the task of a webhook", err)
		}
		return // the next daemon follows it
	}
	e.Outcome = t.Outcome
	if t.Repo != nil && t.Repo.Delivery != nil {
		e.Delivery = t.Repo.Delivery.URL
	}
	t.ID = e.Task
	s.tell(ctx, row, &e, forge.TaskEnded(t, s.page(e.Task)))
	if ctx.Err() != nil {
		return
	}
	e.State = api.HookEnded
	s.update(ctx, api.EventHookEnded, e)
}

// page is the page of a task in the console; empty if it has no address.
func (s *Service) page(id api.TaskID) string {
	if at := s.cfg.Address(); at != "" {
		return at + "/#/task/" + string(id)
	}
	return ""
}

// tell writes a comment on the issue of a request, and records that or why it failed: that is no failure of the task.
func (s *Service) tell(ctx context.Context, row api.Repository, e *api.HookEvent, text string) {
	f, err := s.cfg.Forge(ctx, row.URL)
	if err == nil {
		err = f.Comment(ctx, e.Issue, text)
	}
	if ctx.Err() != nil {
		return
	}
	if e.CommentError = ""; err != nil {
		e.CommentError = err.Error()
		s.failed(row, "write a comment on an issue", err)
	} else {
		e.Told++
	}
	s.update(ctx, api.EventHookComment, *e)
}

// update stores a request in its state, and appends what happened.
func (s *Service) update(ctx context.Context, t api.EventType, e api.HookEvent) {
	ctx = context.WithoutCancel(ctx)
	if err := s.cfg.Rows.UpdateHookEvent(ctx, e); err != nil {
		s.cfg.Logger.Error("store an event of a webhook", "repository", e.Repository, "cause", e.Cause, "error", err)
		return
	}
	s.append(ctx, t, e)
}

func (s *Service) append(ctx context.Context, t api.EventType, e api.HookEvent) {
	if _, err := s.cfg.Log.Append(ctx, api.Stream{Kind: api.StreamHook, ID: string(e.Repository)}, t, e); err != nil {
		s.cfg.Logger.Error("append an event of a webhook", "repository", e.Repository, "error", err)
	}
}

func (s *Service) failed(row api.Repository, what string, err error) {
	s.cfg.Logger.Error("cannot "+what, "repository", row.ID, "error", err, "fix", api.HintOf(err))
}
