package http

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"hortus.dev/api"
)

var (
	stateParam   = Param{Name: "state", Doc: "Only those in this state. Can be repeated.", Type: ""}
	outcomeParam = Param{Name: "outcome", Doc: "Only those with this outcome. Can be repeated.", Type: ""}
	forksParam   = Param{Name: "forksOf", Doc: "Only forks of the sandbox with this whole id, and forks of those.", Type: ""}
	lineageParam = Param{Name: "lineage", Doc: "Only the sandbox with this whole id, and what was forked from it, or restored from snapshots of it or of those.", Type: ""}
	labelParam   = Param{Name: "label", Doc: "Only those with this label, as name=value. Can be repeated: all must match.", Type: ""}
)

// maxFilterPages bounds the pages that are read for one filtered page. The answer may then be short, and
// says where the next page begins.
const maxFilterPages = 20

// filtered lists the rows that match, a page at a time.
func filtered[T any](ctx context.Context, p api.PageRequest, match func(T) bool, list func(context.Context, api.PageRequest) ([]T, string, error)) (out []T, next string, err error) {
	limit := p.Limit
	if limit == 0 {
		limit = api.DefaultPage
	}
	for range maxFilterPages {
		p.Limit = limit - len(out)
		rows, next, err := list(ctx, p)
		if err != nil {
			return nil, "", err
		}
		for _, v := range rows {
			if match(v) {
				out = append(out, v)
			}
		}
		if p.Cursor = next; next == "" || len(out) == limit {
			break
		}
	}
	return out, p.Cursor, nil
}

// oneOf reads a parameter whose values are those of a type with a closed set.
func oneOf[S ~string](r *http.Request, name string) ([]S, error) {
	known := enums[reflect.TypeFor[S]()]
	var out []S
	for _, v := range r.URL.Query()[name] {
		if !slices.Contains(known, v) {
			return nil, api.Errorf(api.KindInvalid, "unknown %s %.40q: use %s", name, v, strings.Join(known, ", "))
		}
		out = append(out, S(v))
	}
	return out, nil
}

// in reports whether a value is in a list that is not empty.
func in[S comparable](all []S, v S) bool { return len(all) == 0 || slices.Contains(all, v) }

// sandboxPage lists the sandboxes that match the parameters of a request. A state of ended ones
// includes them.
func (d sandboxes) sandboxPage(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.Sandbox, string, error) {
	all, err := flag(r, "all")
	if err != nil {
		return nil, "", err
	}
	states, err := oneOf[api.SandboxState](r, "state")
	if err != nil {
		return nil, "", err
	}
	labels := r.URL.Query()["label"]
	for _, l := range labels {
		if name, _, ok := strings.Cut(l, "="); !ok || name == "" {
			return nil, "", api.Errorf(api.KindInvalid, "label %.80q is not name=value", l)
		}
	}
	list := func(ctx context.Context, p api.PageRequest) ([]api.Sandbox, string, error) {
		return d.Sandboxes.Page(ctx, all || slices.ContainsFunc(states, api.SandboxState.Final), p)
	}
	of := api.SandboxID(r.URL.Query().Get("forksOf"))
	first := api.SandboxID(r.URL.Query().Get("lineage"))
	switch {
	case first != "" && !first.Valid():
		return nil, "", api.Errorf(api.KindInvalid, "lineage %.40q is not the id of a sandbox", first)
	case of != "" && !of.Valid():
		return nil, "", api.Errorf(api.KindInvalid, "forksOf %.40q is not the id of a sandbox", of)
	case of == "" && first == "" && len(states) == 0 && len(labels) == 0:
		return list(ctx, p)
	}
	l := lineage{sandboxes: d.Sandboxes, of: of, known: map[api.SandboxID]bool{of: true}}
	return filtered(ctx, p, func(s api.Sandbox) bool {
		return (of == "" || l.has(ctx, s)) && (first == "" || s.LineageID() == first) && in(states, s.State) && !slices.ContainsFunc(labels, func(l string) bool {
			name, value, _ := strings.Cut(l, "=")
			have, ok := s.Labels[name]
			return !ok || have != value
		})
	}, list)
}

// lineage finds the forks of a sandbox, and the forks of those, also of forks that have ended.
type lineage struct {
	sandboxes Sandboxes
	of        api.SandboxID
	known     map[api.SandboxID]bool // whether a sandbox is it or descends from it
}

// maxGenerations bounds how far the ancestors of a sandbox are followed.
const maxGenerations = 1000

// has reports whether a sandbox descends from the one.
func (l lineage) has(ctx context.Context, s api.Sandbox) (yes bool) {
	var path []api.SandboxID
	defer func() {
		for _, id := range path {
			l.known[id] = yes
		}
	}()
	for s.Parent != "" && len(path) < maxGenerations {
		if is, ok := l.known[s.Parent]; ok {
			return is
		}
		path = append(path, s.Parent)
		parent, err := l.sandboxes.Get(ctx, s.Parent)
		if err != nil {
			return false // it is not stored any more
		}
		s = parent
	}
	return false
}

// taskPage lists the tasks that match the parameters of a request, or runs alone: those without a
// repository.
func (d tasks) taskPage(programs bool) func(context.Context, *http.Request, api.PageRequest) ([]api.Task, string, error) {
	return func(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.Task, string, error) {
		states, err := oneOf[api.TaskState](r, "state")
		if err != nil {
			return nil, "", err
		}
		outcomes, err := oneOf[api.Outcome](r, "outcome")
		if err != nil {
			return nil, "", err
		}
		list := func(ctx context.Context, p api.PageRequest) ([]api.Task, string, error) {
			return d.Tasks.Page(ctx, programs, p)
		}
		if len(states) == 0 && len(outcomes) == 0 {
			return list(ctx, p)
		}
		return filtered(ctx, p, func(t api.Task) bool { return in(states, t.State) && in(outcomes, t.Outcome) }, list)
	}
}
