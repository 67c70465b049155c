package e2b

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
)

// nextHeader carries where the next page begins; it is not there on the last one.
const nextHeader = "X-Next-Token"

// maxPage bounds a page, and is what a client gets that asks for no size.
const maxPage = 100

// filter is what a list of sandboxes is cut down to.
type filter struct {
	metadata []pair
	states   []string
	since    time.Time
	template string // as rows have it; empty for all
}

func (d sandboxes) filter(q url.Values) (f filter, err error) {
	if f.metadata, err = parseMetadata(q.Get("metadata")); err != nil {
		return f, err
	}
	f.states = words(q, "state")
	for _, s := range f.states {
		if s != string(api.SandboxRunning) && s != string(api.SandboxPaused) {
			return f, api.Errorf(api.KindInvalid, `parameter "state": %.40q must be "running" or "paused"`, s)
		}
	}
	if raw := q.Get("startedAfter"); raw != "" {
		if f.since, err = time.Parse(time.RFC3339, raw); err != nil {
			return f, api.Errorf(api.KindInvalid, `parameter "startedAfter": %.60q is not a time such as 2006-01-02T15:04:05Z`, raw)
		}
	}
	if raw := q.Get("template"); raw != "" {
		if f.template, err = d.template(raw); api.KindOf(err) == api.KindNotFound {
			f.template, err = "?", nil // no row has it
		}
	}
	return f, err
}

func (f filter) matches(s api.Sandbox) bool {
	return (s.State == api.SandboxRunning || s.State == api.SandboxPaused) &&
		(len(f.states) == 0 || slices.Contains(f.states, string(s.State))) &&
		!s.CreatedAt.Before(f.since) && (f.template == "" || s.Template == f.template || strings.HasPrefix(s.Template, f.template+":")) && hasLabels(s.Labels, f.metadata)
}

// listRunning is the list of the first generation: all that run, in one answer.
func (d sandboxes) listRunning(w http.ResponseWriter, r *http.Request) error {
	f, err := d.filter(r.URL.Query())
	if err != nil {
		return err
	}
	f.states = []string{string(api.SandboxRunning)}
	// The wire has no pages here. Rows are written as they are read, a page at a time.
	begun := false
	for s, err := range api.Pages(r.Context(), d.live) {
		if err != nil && !begun {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler) // an answer that is cut off is not mistaken for a whole one
		}
		if !f.matches(s) {
			continue
		}
		b, err := json.Marshal(d.listedOf(s))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		sep := ","
		if !begun {
			begun, sep = true, "["
			w.Header().Set("Content-Type", body.Type)
		}
		if _, err := w.Write(append([]byte(sep), b...)); err != nil {
			return nil
		}
	}
	if !begun {
		return answer(w, http.StatusOK, []listRow{})
	}
	_, _ = w.Write([]byte("]\n"))
	return nil
}

// list answers with a page of what runs and what is paused.
func (d sandboxes) list(w http.ResponseWriter, r *http.Request) error {
	f, err := d.filter(r.URL.Query())
	if err != nil {
		return err
	}
	p, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	running := 0
	rows := window[api.Sandbox]{page: p, at: func(s api.Sandbox) position { return position{s.CreatedAt, string(s.ID)} }}
	for s, err := range api.Pages(r.Context(), d.live) {
		if err != nil {
			return err
		}
		if f.matches(s) {
			rows.add(s)
			if s.State == api.SandboxRunning {
				running++
			}
		}
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(running))
	return answerWindow(w, rows, d.listedOf)
}

// page is which part of a list is requested.
type page struct {
	limit  int
	rising bool // the oldest first
	after  *position
}

// position is a place in a list: lists are by time, then by name.
type position struct {
	at time.Time
	id string
}

func (m position) compare(o position) int {
	return cmp.Or(m.at.Compare(o.at), cmp.Compare(m.id, o.id))
}

func readPage(q url.Values) (page, error) {
	limit, err := number(q, "limit", maxPage, 1, maxPage)
	if err != nil {
		return page{}, err
	}
	p := page{limit: int(limit)}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		p.rising = true
	default:
		return p, api.Errorf(api.KindInvalid, `parameter "order": %.20q must be "asc" or "desc"`, order)
	}
	if raw := q.Get("nextToken"); raw != "" {
		m, ok := parsePosition(raw)
		if !ok {
			return p, api.Errorf(api.KindInvalid, `parameter "nextToken" is not valid`)
		}
		p.after = &m
	}
	return p, nil
}

// token is a position as clients carry it. They must not read it.
func (m position) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(m.at.UnixMicro(), 36) + "." + m.id))
}

func parsePosition(token string) (position, bool) {
	if len(token) > 100 {
		return position{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return position{}, false
	}
	at, id, ok := strings.Cut(string(b), ".")
	micros, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil || len(id) != api.IDLen {
		return position{}, false
	}
	return position{time.UnixMicro(micros).UTC(), id}, true
}

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
