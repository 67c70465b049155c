package e2b

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
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

func (d *door) filter(q url.Values) (f filter, err error) {
	if f.metadata, err = parseMetadata(q.Get("metadata")); err != nil {
		return f, err
	}
	f.states = words(q, "state")
	for _, s := range f.states {
		if s != string(api.SandboxRunning) && s != string(api.SandboxPaused) {
			return f, api.Errorf(api.KindInvalid, `parameter "state": %.40q is neither "running" nor "paused"`, s)
		}
	}
	if raw := q.Get("startedAfter"); raw != "" {
		if f.since, err = time.Parse(time.RFC3339, raw); err != nil {
			return f, api.Errorf(api.KindInvalid, `parameter "startedAfter": %.60q is no time like 2006-01-02T15:04:05Z`, raw)
		}
	}
	if raw := q.Get("template"); raw != "" {
		if f.template, err = d.template(raw); api.KindOf(err) == api.KindNotFound {
			f.template, err = "?", nil // no row has it
		}
	}
	return f, err
}

func (f filter) takes(s api.Sandbox) bool {
	return (s.State == api.SandboxRunning || s.State == api.SandboxPaused) &&
		(len(f.states) == 0 || slices.Contains(f.states, string(s.State))) &&
		!s.CreatedAt.Before(f.since) && (f.template == "" || s.Template == f.template) && holds(s.Labels, f.metadata)
}

// listRunning is the list of the first generation: all that run, in one answer.
func (d *door) listRunning(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, "metadata")
	var f filter
	if err == nil {
		f, err = d.filter(q)
	}
	f.states = []string{string(api.SandboxRunning)}
	var all []api.Sandbox
	if err == nil {
		all, err = d.Sandboxes.List(r.Context(), false)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	out := []listed{}
	for _, s := range all {
		if f.takes(s) {
			out = append(out, d.listedOf(s))
		}
	}
	answer(w, http.StatusOK, out)
}

// list gives a page of what runs and what is paused.
func (d *door) list(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, "metadata", "state*", "order", "limit", "nextToken", "startedAfter", "template")
	var f filter
	if err == nil {
		f, err = d.filter(q)
	}
	var p page
	if err == nil {
		p, err = readPage(q)
	}
	var all []api.Sandbox
	if err == nil {
		all, err = d.Sandboxes.List(r.Context(), false)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	running := 0
	var rows []api.Sandbox
	for _, s := range all {
		if f.takes(s) {
			rows = append(rows, s)
			if s.State == api.SandboxRunning {
				running++
			}
		}
	}
	rows, next := cut(p, rows, func(s api.Sandbox) mark { return mark{s.CreatedAt, string(s.ID)} })
	w.Header().Set("X-Total-Running", strconv.Itoa(running))
	setNext(w, next)
	out := make([]listed, len(rows))
	for i, s := range rows {
		out[i] = d.listedOf(s)
	}
	answer(w, http.StatusOK, out)
}

func setNext(w http.ResponseWriter, next string) {
	if next != "" {
		w.Header().Set(nextHeader, next)
	}
}

// page is which part of a list is asked for.
type page struct {
	limit  int
	rising bool // the oldest first
	after  *mark
}

// mark is a place in a list: lists are by time, then by name.
type mark struct {
	at time.Time
	id string
}

func (m mark) compare(o mark) int {
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
		return p, api.Errorf(api.KindInvalid, `parameter "order": %.20q is neither "asc" nor "desc"`, order)
	}
	if raw := q.Get("nextToken"); raw != "" {
		m, ok := parseMark(raw)
		if !ok {
			return p, api.Errorf(api.KindInvalid, `parameter "nextToken" is none that a list gave`)
		}
		p.after = &m
	}
	return p, nil
}

// token is a mark as clients carry it. They must not read it.
func (m mark) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(m.at.UnixMicro(), 36) + "." + m.id))
}

func parseMark(token string) (mark, bool) {
	if len(token) > 100 {
		return mark{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return mark{}, false
	}
	at, id, ok := strings.Cut(string(b), ".")
	micros, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil || len(id) != api.IDLen {
		return mark{}, false
	}
	return mark{time.UnixMicro(micros).UTC(), id}, true
}

// cut orders a list and gives the page that is asked for, and the token of the one
// after it. What comes or goes between two pages moves nothing else between them.
func cut[T any](p page, all []T, at func(T) mark) ([]T, string) {
	where := func(v T) mark {
		m := at(v)
		m.at = time.UnixMicro(m.at.UnixMicro()) // as precise as a token
		return m
	}
	sign := -1
	if p.rising {
		sign = 1
	}
	slices.SortFunc(all, func(a, b T) int { return sign * where(a).compare(where(b)) })
	if p.after != nil {
		begin := slices.IndexFunc(all, func(v T) bool { return sign*where(v).compare(*p.after) > 0 })
		if begin < 0 {
			begin = len(all)
		}
		all = all[begin:]
	}
	if len(all) <= p.limit {
		return all, ""
	}
	return all[:p.limit], where(all[p.limit-1]).token()
}
