package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// LessonService lists and removes what tasks taught. The texts of a lesson are untrusted.
type LessonService struct{ service }

const lessonsPath = "/v1/lessons"

// List lists the lessons of a scope, or of all for "", the newest first.
func (s *LessonService) List(ctx context.Context, scope string) ([]api.Lesson, error) {
	return collect[api.Lesson](ctx, s.client, lessonsPath, lessonQuery(scope), 0)
}

// All yields the lessons of a scope, or of all for "", page by page. It ends with the first error.
func (s *LessonService) All(ctx context.Context, scope string) iter.Seq2[api.Lesson, error] {
	return walk[api.Lesson](ctx, s.client, lessonsPath, lessonQuery(scope))
}

// Get returns the lesson whose identifier begins with a prefix. It fails with KindNotFound if there is none.
func (s *LessonService) Get(ctx context.Context, id string) (api.Lesson, error) {
	return s.one(ctx, http.MethodGet, id)
}

// Remove removes a lesson, and returns what it was.
func (s *LessonService) Remove(ctx context.Context, id string) (api.Lesson, error) {
	return s.one(ctx, http.MethodDelete, id)
}

func (s *LessonService) one(ctx context.Context, method, id string) (out api.Lesson, err error) {
	if id == "" || len(id) > api.IDLen {
		return out, api.Errorf(api.KindInvalid, "%.40q is not the id of a lesson", id)
	}
	return out, s.client.call(ctx, method, lessonsPath+"/"+url.PathEscape(id), nil, &out)
}

func lessonQuery(scope string) url.Values {
	if scope == "" {
		return nil
	}
	return url.Values{"scope": {scope}}
}
