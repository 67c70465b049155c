package e2b

import (
	"context"
	"slices"
	"time"

	"hortus.dev/api"
)

// live lists the sandboxes that have not ended.
func (d sandboxes) live(ctx context.Context, p api.PageRequest) ([]api.Sandbox, string, error) {
	return d.Sandboxes.Page(ctx, false, p)
}

// window keeps the rows of one page of a list whose rows are added in any order: it
// holds about two pages at a time.
type window[T any] struct {
	page page
	at   func(T) position
	rows []T
}

// where is the place of a row, as precise as a token.
func (w *window[T]) where(v T) position {
	m := w.at(v)
	m.at = time.UnixMicro(m.at.UnixMicro())
	return m
}

func (w *window[T]) compare(a, b position) int {
	if w.page.rising {
		return a.compare(b)
	}
	return b.compare(a)
}

// add takes a row in unless it is not behind the page's beginning.
func (w *window[T]) add(v T) {
	if w.page.after != nil && w.compare(w.where(v), *w.page.after) <= 0 {
		return
	}
	if w.rows = append(w.rows, v); len(w.rows) > 2*(w.page.limit+1) {
		w.sort()
	}
}

// sort orders the rows and forgets those behind the page, but for one.
func (w *window[T]) sort() {
	slices.SortFunc(w.rows, func(a, b T) int { return w.compare(w.where(a), w.where(b)) })
	if most := w.page.limit + 1; len(w.rows) > most {
		clear(w.rows[most:])
		w.rows = w.rows[:most]
	}
}

// cut returns the page, and the token of the one after it, "" if there is none. What
// comes or goes between two pages moves nothing else between them.
func (w *window[T]) cut() ([]T, string) {
	w.sort()
	if len(w.rows) <= w.page.limit {
		return w.rows, ""
	}
	return w.rows[:w.page.limit], w.where(w.rows[w.page.limit-1]).token()
}
