package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

func (g gitlab) request(ctx context.Context, number int) (forge.Review, error) {
	var m struct{ State, SHA string }
	_, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/merge_requests/%d", g.path, number), nil, &m)
	if m.State == "opened" || m.State == "locked" {
		m.State = forge.Open
	}
	return forge.Review{State: m.State, Head: m.SHA}, err
}

func (g gitlab) self(ctx context.Context) (string, error) { return g.login(ctx) }

// remarks lists the notes: those of threads on lines and the texts of reviews are among them.
func (g gitlab) remarks(ctx context.Context, number int) (all []remark, complete bool, err error) {
	type note struct {
		ID       int64
		Body     string
		System   bool
		Resolved bool
		Author   struct {
			ID       int64
			Username string
		}
		Position struct {
			NewPath string `json:"new_path"`
			OldPath string `json:"old_path"`
			NewLine int    `json:"new_line"`
			OldLine int    `json:"old_line"`
		}
	}
	query := url.Values{"sort": {"asc"}, "order_by": {"created_at"}}
	complete, err = list(ctx, g.client, fmt.Sprintf("%s/merge_requests/%d/notes", g.path, number), query, func(page []note) bool {
		for _, n := range page {
			if n.System || n.Resolved {
				continue
			}
			all = append(all, remark{
				Remark: forge.Remark{
					ID: fmt.Sprintf("note %d", n.ID), Body: n.Body,
					Path: cmp.Or(n.Position.NewPath, n.Position.OldPath), Line: cmp.Or(n.Position.NewLine, n.Position.OldLine),
				},
				by: author{ID: n.Author.ID, Login: n.Author.Username},
			})
		}
		return true
	})
	return all, complete, err
}

// developer is the access level of the role Developer, the first one that may push.
const developer = 30

func (g gitlab) mayWrite(ctx context.Context, by author) (bool, error) {
	var m struct {
		Level int `json:"access_level"`
	}
	_, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/members/all/%d", g.path, by.ID), nil, &m)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	if err != nil || m.Level < developer {
		return false, err
	}
	var u struct{ Bot bool } // the user of an access token of a project or a group, or a service account
	_, err = g.call(ctx, http.MethodGet, fmt.Sprintf("users/%d", by.ID), nil, &u)
	return err == nil && !u.Bot, err
}

// checks reads the statuses of a commit: the jobs of its pipelines, and those of services elsewhere. Jobs have a log.
func (g gitlab) checks(ctx context.Context, commit string) ([]forge.Check, int, error) {
	type status struct {
		ID                        int64
		Name, Status, Description string
		Target                    string `json:"target_url"`
		AllowFailure              bool   `json:"allow_failure"`
	}
	var t tally
	var failed error
	_, err := list(ctx, g.client, fmt.Sprintf("%s/repository/commits/%s/statuses", g.path, segment(commit)), nil, func(page []status) bool {
		for _, s := range page {
			if s.AllowFailure || !t.add(s.Status, forge.Check{Name: s.Name, URL: s.Target, Text: s.Description}) {
				continue
			}
			var log string
			if _, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/jobs/%d/trace", g.path, s.ID), nil, &log); missing(err) != nil && failed == nil {
				failed = err
			}
			if log != "" {
				t.failed[len(t.failed)-1].Text = strings.TrimRight(log, "\n")
			}
		}
		return failed == nil
	})
	return t.failed, t.pending, cmp.Or(absent(err), failed)
}
