package api

import (
	"context"
	"iter"
)

// PageRequest requests one page of a list, which is the newest first.
type PageRequest struct {
	// Limit is the maximum number of rows, 1 to MaxPage; 0 means DefaultPage. A page of
	// large rows can be shorter.
	Limit int
	// Cursor is what the page before gave; "" for the first page.
	Cursor string
}

// Bounds of a page, in rows.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Rows returns the maximum number of rows. KindInvalid if Limit is out of bounds.
func (p PageRequest) Rows() (int, error) {
	switch {
	case p.Limit == 0:
		return DefaultPage, nil
	case p.Limit < 0 || p.Limit > MaxPage:
		return 0, Errorf(KindInvalid, "a page of %d rows: use 1 to %d", p.Limit, MaxPage)
	}
	return p.Limit, nil
}

// Pages yields the rows of a list, page by page: page reads one, and gives the cursor of
// the next, "" after the last. An error ends the sequence.
func Pages[T any](ctx context.Context, page func(context.Context, PageRequest) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p := (PageRequest{}); ; {
			rows, next, err := page(ctx, p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range rows {
				if !yield(v, nil) {
					return
				}
			}
			if p.Cursor = next; next == "" {
				return
			}
		}
	}
}
