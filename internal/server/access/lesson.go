package access

import (
	"context"

	"hortus.dev/api"
)

// LessonService keeps what the tasks of accounts taught; "" is all accounts, in RemoveLesson the operator's own.
type LessonService interface {
	LessonPage(ctx context.Context, account, scope string, p api.PageRequest) ([]api.Lesson, string, error)
	FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error)
	RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error)
}

// Lessons guards lessons. Users have those of their own account, admins all.
type Lessons struct{ s LessonService }

// NewLessons guards lessons.
func NewLessons(s LessonService) *Lessons { return &Lessons{s} }

// Page returns one page of the caller's lessons, the newest first.
func (l *Lessons) Page(ctx context.Context, of string, page api.PageRequest) ([]api.Lesson, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return l.s.LessonPage(ctx, scope(p), of, page)
}

// Find returns a lesson of the caller's.
func (l *Lessons) Find(ctx context.Context, prefix string) (api.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Lesson{}, err
	}
	return l.s.FindLesson(ctx, scope(p), prefix)
}

// Remove removes a lesson of the caller's.
func (l *Lessons) Remove(ctx context.Context, prefix string) (api.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Lesson{}, err
	}
	found, err := l.s.FindLesson(ctx, scope(p), prefix)
	if err != nil {
		return found, err
	}
	return l.s.RemoveLesson(ctx, found.Account, found.ID)
}
