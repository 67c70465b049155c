package task

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/task/lesson"
)

// Lessons are what earlier tasks taught.
type Lessons interface {
	// About finds what fixed a failure before, by the output of that failure.
	About(ctx context.Context, account, scope, output string) ([]api.FoundLesson, error)
	// Learn stores what an ended task teaches; patch is what one on a repository changed.
	Learn(ctx context.Context, t api.Task, patch string) error
}

// maxTaught bounds how much of a patch is read for a lesson, in bytes.
const maxTaught = 64 << 10

// teacher gives the models of one task what earlier tasks taught, and has the next tasks learn from it.
type teacher struct {
	book Lessons
	task *api.Task
	log  *slog.Logger
	emit *emitter
}

// newTeacher returns what learns in a task. A task that is recorded, or that repeats a recording, is not given lessons:
// its models must be asked the same again.
func newTeacher(cfg Config, t *api.Task, emit *emitter) teacher {
	p := teacher{cfg.Lessons, t, cfg.Logger, emit}
	if t.Create.Record != "" || t.Create.Replay != nil || strings.HasPrefix(t.Model, "replay:") {
		p.book = nil
	}
	return p
}

// known finds lessons about a failure, of an attempt or after a round. That none can be read is no reason to stop.
func (p teacher) known(ctx context.Context, n int, scope, output string) []api.KnownFix {
	if p.book == nil {
		return nil
	}
	found, err := p.book.About(ctx, p.task.Account, scope, output)
	if err != nil {
		p.log.Warn("cannot search for lessons of earlier tasks", "task", p.task.ID, "err", err)
		return nil
	}
	found = slices.DeleteFunc(found, func(l api.FoundLesson) bool { return l.Task == p.task.ID })
	if len(found) == 0 {
		return nil
	}
	p.emit.Emit(ctx, api.EventLessons, api.LessonsEvent{Attempt: n, Lessons: lesson.Offers(found)})
	return lesson.Tell(found)
}

// onRepository returns what finds lessons for a task on a repository; nil if it is given none.
func (p teacher) onRepository() func(ctx context.Context, n int, output string) []api.KnownFix {
	if p.book == nil {
		return nil
	}
	scope := lesson.Scope(*p.task)
	return func(ctx context.Context, n int, output string) []api.KnownFix { return p.known(ctx, n, scope, output) }
}

// learn stores what a task that has ended teaches.
func (p teacher) learn(ctx context.Context, repositories Repositories) {
	if p.book == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	patch := ""
	if r := p.task.Repo; r != nil && p.task.Outcome == api.OutcomeVerified && r.Head != "" {
		var err error
		if patch, err = p.patch(ctx, repositories); err != nil {
			p.log.Warn("read the patch of a task for its lessons", "task", p.task.ID, "err", err)
		}
	}
	if err := p.book.Learn(ctx, *p.task, patch); err != nil {
		p.log.Warn("store the lessons of a task", "task", p.task.ID, "err", err)
	}
}

func (p teacher) patch(ctx context.Context, repositories Repositories) (string, error) {
	r, err := repositories.Diff(ctx, *p.task, 0, "")
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxTaught))
	return string(b), err
}
