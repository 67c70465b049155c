package sqlite

import (
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

// scanRow reads a row whose columns are doc, id and others: first the document into v, then
// the other columns, which may replace fields of v.
func scanRow[ID any](r scanner, what string, v any, id *ID, others ...any) error {
	doc := &document{into: v}
	if err := r.Scan(append([]any{doc, id}, others...)...); err != nil {
		return err
	}
	if doc.err != nil {
		return api.Errorf(api.KindInternal, "the row of %s %v is damaged: %w", what, *id, doc.err)
	}
	return nil
}

// document decodes a column.
type document struct {
	into any
	text string
	err  error
}

// Scan implements sql.Scanner. It keeps an error of the document, so that the other columns
// are scanned too.
func (d *document) Scan(value any) error {
	d.text, _ = value.(string)
	d.err = rowjson.Unmarshal([]byte(d.text), d.into)
	return nil
}

// scanValue reads a row with one column.
func scanValue[T any](r scanner) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// instant scans a time, the zero time for NULL.
type instant struct{ to *time.Time }

// Scan implements sql.Scanner.
func (i instant) Scan(value any) error {
	*i.to = time.Time{}
	if micros, ok := value.(int64); ok {
		*i.to = time.UnixMicro(micros).UTC()
	}
	return nil
}

// optional scans text, "" for NULL.
type optional[S ~string] struct{ to *S }

// Scan implements sql.Scanner.
func (o optional[S]) Scan(value any) error {
	text, _ := value.(string)
	*o.to = S(text)
	return nil
}

// text returns a destination of optional text.
func text[S ~string](to *S) optional[S] { return optional[S]{to} }
