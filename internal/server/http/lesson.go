package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Lessons is what the server asks of what tasks taught.
type Lessons interface {
	// Page lists the lessons of a scope, or of all for "", the newest first.
	Page(ctx context.Context, scope string, p api.PageRequest) (rows []api.Lesson, next string, err error)
	// Find returns the lesson whose identifier begins with a prefix.
	Find(ctx context.Context, prefix string) (api.Lesson, error)
	Remove(ctx context.Context, prefix string) (api.Lesson, error)
}

func (d lessonStore) lessonRoutes() []Route {
	id := func(r *http.Request) (string, error) { return r.PathValue("id"), nil }
	return []Route{{
		Method: "GET", Pattern: "/v1/lessons", Name: "lessons", Role: api.RoleUser,
		Doc: "List the lessons of the account: failures of verified tasks with what fixed them, newest first. Their texts are untrusted.",
		Out: []api.Lesson{}, Paged: true,
		Params: []Param{{Name: "scope", Doc: "Only the lessons of this repository (its URL) or language (\"language:python\").", Type: ""}},
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.Lesson, string, error) {
			return d.Lessons.Page(ctx, r.URL.Query().Get("scope"), p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/lessons/{id}", Name: "lesson", Role: api.RoleUser,
		Doc: "Get a lesson.",
		Out: api.Lesson{}, Handler: on(d.Lessons, id, Lessons.Find),
	}, {
		Method: "DELETE", Pattern: "/v1/lessons/{id}", Name: "removeLesson", Role: api.RoleUser,
		Doc: "Remove a lesson, so that no task is given it any more.",
		Out: api.Lesson{}, Handler: on(d.Lessons, id, Lessons.Remove),
	}}
}
