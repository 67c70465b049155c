package access

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/lessons"
)

// LessonService keeps what the tasks of accounts taught; "" is the operator's own.
type LessonService interface {
	Page(ctx context.Context, account, scope string, p api.PageRequest) ([]lessons.Lesson, string, error)
	FindLesson(ctx context.Context, account, prefix string) (lessons.Lesson, error)
	RemoveLesson(ctx context.Context, account, id string) (lessons.Lesson, error)
}

// Lessons guards lessons. Everybody, an admin too, has those of the own account only.
type Lessons struct{ s LessonService }

// NewLessons guards lessons.
func NewLessons(s LessonService) *Lessons { return &Lessons{s} }

// Page returns one page of the caller's lessons, the newest first.
func (l *Lessons) Page(ctx context.Context, scope string, page api.PageRequest) ([]lessons.Lesson, string, error) {
	p, err := caller(ctx)
	if err != nil {
		return nil, "", err
	}
	return l.s.Page(ctx, p.Account, scope, page)
}

// Find returns a lesson of the caller's.
func (l *Lessons) Find(ctx context.Context, prefix string) (lessons.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return lessons.Lesson{}, err
	}
	return l.s.FindLesson(ctx, p.Account, prefix)
}

// Remove removes a lesson of the caller's.
func (l *Lessons) Remove(ctx context.Context, prefix string) (lessons.Lesson, error) {
	p, err := caller(ctx)
	if err != nil {
		return lessons.Lesson{}, err
	}
	found, err := l.s.FindLesson(ctx, p.Account, prefix)
	if err != nil {
		return found, err
	}
	return l.s.RemoveLesson(ctx, p.Account, found.ID)
}
