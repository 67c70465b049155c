package http

import (
	"context"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// headerNext holds where the next page of a list begins. The last page has none.
const headerNext = "X-Next-Cursor"

// pageParams are those of every list.
var pageParams = []Param{
	{Name: "limit", Doc: "Maximum number of rows, 1 to 1000 (default 100). A page of large rows can be shorter.", Type: 0},
	{Name: "cursor", Doc: "Start of the page: the header X-Next-Cursor of the previous page. Omit it for the first page.", Type: ""},
}

var allParam = Param{Name: "all", Doc: "Include ended ones (default false).", Type: false}

// pageRequest reads which page is wanted.
func pageRequest(r *http.Request) (p api.PageRequest, err error) {
	q := r.URL.Query()
	p.Cursor = q.Get("cursor")
	raw := q.Get("limit")
	if raw == "" {
		return p, nil
	}
	if p.Limit, err = strconv.Atoi(raw); err != nil || p.Limit < 1 || p.Limit > api.MaxPage {
		return p, api.Errorf(api.KindInvalid, "limit %.20q is not a number between 1 and %d", raw, api.MaxPage)
	}
	return p, nil
}

// page serves one page of a list.
func page[T any](list func(ctx context.Context, r *http.Request, p api.PageRequest) ([]T, string, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := pageRequest(r)
		if err != nil {
			return err
		}
		rows, next, err := list(r.Context(), r, p)
		if next != "" {
			w.Header().Set(headerNext, next)
		}
		if rows == nil {
			rows = []T{}
		}
		return reply(w, http.StatusOK, rows, err)
	}
}

// pageAll is page of a list that has what ended too if it is requested.
func pageAll[S, T any](service S, list func(s S, ctx context.Context, all bool, p api.PageRequest) ([]T, string, error)) handler {
	return page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]T, string, error) {
		all, err := flag(r, "all")
		if err != nil {
			return nil, "", err
		}
		return list(service, ctx, all, p)
	})
}
