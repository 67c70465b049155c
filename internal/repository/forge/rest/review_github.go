package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// login is the user of the token. An installation has none.
func (c *client) login(ctx context.Context) (string, error) {
	var u person
	_, err := c.call(ctx, http.MethodGet, "user", nil, &u)
	return cmp.Or(u.Login, u.Username), missing(err)
}

// pullReview reads the state and the head of a pull request of GitHub and of Gitea.
func (c *client) pullReview(ctx context.Context, path string, number int) (forge.Review, error) {
	var p struct {
		State  string
		Merged bool
		Head   struct{ SHA string }
	}
	_, err := c.call(ctx, http.MethodGet, fmt.Sprintf("%s/pulls/%d", path, number), nil, &p)
	if p.Merged {
		p.State = forge.Merged
	}
	return forge.Review{State: p.State, Head: p.Head.SHA}, err
}

// permission asks GitHub and Gitea for the permission of a person.
func (c *client) permission(ctx context.Context, path, login string) (bool, error) {
	var p struct{ Permission string }
	_, err := c.call(ctx, http.MethodGet, path+"/collaborators/"+url.PathEscape(login)+"/permission", nil, &p)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil // no account any more
	}
	return slices.Contains([]string{"write", "maintain", "admin", "owner"}, p.Permission), err
}

// pullRemark is a comment or a review of a pull request of GitHub and of Gitea.
type pullRemark struct {
	ID    int64
	Body  string
	State string
	Path  string
	// Line is where GitHub says the comment is now, and Original where it was made. Position is Gitea's line.
	Line        int
	Original    int `json:"original_line"`
	Position    int
	Association string `json:"author_association"`
	User        struct {
		ID          int64
		Login, Type string
	}
}

func (p pullRemark) remark(form string) remark {
	return remark{
		Remark: forge.Remark{ID: fmt.Sprintf("%s %d", form, p.ID), Body: p.Body, Path: p.Path},
		by:     author{ID: p.User.ID, Login: p.User.Login, Type: p.User.Type, Association: p.Association},
	}
}

// written reports whether a review says something: one without a text is only the frame of its comments.
func (p pullRemark) written() bool {
	return strings.TrimSpace(p.Body) != "" && !slices.Contains([]string{"PENDING", "DISMISSED", "REQUEST_REVIEW"}, p.State)
}

func (g github) request(ctx context.Context, number int) (forge.Review, error) {
	return g.pullReview(ctx, g.path, number)
}

func (g github) self(ctx context.Context) (string, error) { return g.login(ctx) }

func (g github) remarks(ctx context.Context, number int) (all []remark, complete bool, err error) {
	complete = true
	for _, part := range []struct{ form, path string }{
		{"comment", fmt.Sprintf("%s/issues/%d/comments", g.path, number)},
		{"line", fmt.Sprintf("%s/pulls/%d/comments", g.path, number)},
		{"review", fmt.Sprintf("%s/pulls/%d/reviews", g.path, number)},
	} {
		whole, err := list(ctx, g.client, part.path, nil, func(page []pullRemark) bool {
			for _, p := range page {
				if part.form == "review" && !p.written() {
					continue
				}
				m := p.remark(part.form)
				m.Line, m.Changes = cmp.Or(p.Line, p.Original), p.State == "CHANGES_REQUESTED"
				all = append(all, m)
			}
			return true
		})
		if err != nil {
			return nil, false, err
		}
		complete = complete && whole
	}
	return all, complete, nil
}

// mayWrite needs both: an association that people with a right have, and the permission. A member of an organization, or a
// collaborator, may have only the right to read.
func (g github) mayWrite(ctx context.Context, by author) (bool, error) {
	if !slices.Contains([]string{"OWNER", "MEMBER", "COLLABORATOR"}, by.Association) {
		return false, nil
	}
	return g.permission(ctx, g.path, by.Login)
}

// checks reads check runs, and the statuses of services that do not use them. A log is behind an address elsewhere, which is not
// followed: a check run has what its program reports.
func (g github) checks(ctx context.Context, commit string) ([]forge.Check, int, error) {
	var t tally
	for page := 1; page <= maxEntries/100; page++ {
		var runs struct {
			Total int `json:"total_count"`
			Runs  []struct {
				Name, Status, Conclusion string
				URL                      string `json:"html_url"`
				Output                   struct{ Title, Summary, Text string }
			} `json:"check_runs"`
		}
		_, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/commits/%s/check-runs?per_page=100&page=%d", g.path, url.PathEscape(commit), page), nil, &runs)
		if absent(err) != nil {
			return nil, 0, err
		}
		for _, r := range runs.Runs {
			state := r.Conclusion
			if r.Status != "completed" {
				state = ""
			}
			t.add(state, forge.Check{Name: r.Name, URL: r.URL, Text: joined(r.Output.Title, r.Output.Summary, r.Output.Text)})
		}
		if page*100 >= runs.Total {
			break
		}
	}
	err := g.statuses(ctx, &t, fmt.Sprintf("%s/commits/%s/status?per_page=100", g.path, url.PathEscape(commit)))
	return t.failed, t.pending, err
}

// statuses reads the newest statuses of a commit of GitHub and of Gitea.
func (c *client) statuses(ctx context.Context, t *tally, path string) error {
	var combined struct {
		Statuses []struct {
			State, Status, Context, Description string
			Target                              string `json:"target_url"`
		}
	}
	_, err := c.call(ctx, http.MethodGet, path, nil, &combined)
	for _, s := range combined.Statuses {
		t.add(cmp.Or(s.State, s.Status), forge.Check{Name: s.Context, URL: s.Target, Text: s.Description})
	}
	return absent(err)
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" }), "\n")
}
