package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// Issue implements [forge.Forge].
func (f *Forge) Issue(ctx context.Context, number int) (forge.Issue, error) {
	if number <= 0 {
		return forge.Issue{}, api.Errorf(api.KindInvalid, "%d is not the number of an issue", number)
	}
	i, err := f.calls.issue(ctx, number)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return i, f.errorf(api.KindNotFound, "%s has no issue %d", f.cfg.Location.Path(), number).
			WithHint("A forge also says so of what the token may not see, and of a repository without issues.")
	case err != nil:
		return i, err
	case i.Number != number || !page(i.URL):
		return forge.Issue{}, f.errorf(api.KindUnavailable, "the answer cannot be read: an issue without its number or an address")
	}
	return i, nil
}

// issueAnswer is an issue of any forge.
type issueAnswer struct {
	Number                   int
	IID                      int `json:"iid"`
	Title, Body, Description string
	URL                      string `json:"html_url"`
	Web                      string `json:"web_url"`
	User, Author             person
	// Pull is set at GitHub and Gitea if it is a pull request.
	Pull any `json:"pull_request"`
}

type person struct{ Login, Username string }

// commentAnswer is a comment of any forge. System is true for one that GitLab wrote itself.
type commentAnswer struct {
	Body         string
	User, Author person
	System       bool
}

// readIssue reads an issue and its first comments. paged is false for a forge that answers with all comments at once.
func (c *client) readIssue(ctx context.Context, path, comments string, query url.Values, paged bool) (forge.Issue, error) {
	var a issueAnswer
	if _, err := c.call(ctx, http.MethodGet, path, nil, &a); err != nil {
		return forge.Issue{}, err
	}
	if a.Pull != nil {
		return forge.Issue{}, c.errorf(api.KindInvalid, "%d is a merge request and not an issue", cmp.Or(a.Number, a.IID))
	}
	i := forge.Issue{
		Number: cmp.Or(a.Number, a.IID), URL: cmp.Or(a.URL, a.Web), Title: a.Title, Body: cmp.Or(a.Body, a.Description),
		Author: cmp.Or(a.User.Login, a.Author.Username),
	}
	take := func(all []commentAnswer) bool {
		for _, m := range all {
			if m.System {
				continue
			}
			if i.More = len(i.Comments) == forge.MaxComments; i.More {
				return false
			}
			i.Comments = append(i.Comments, forge.Comment{Author: cmp.Or(m.User.Login, m.Author.Username), Body: m.Body})
		}
		return true
	}
	if !paged {
		var all []commentAnswer
		_, err := c.call(ctx, http.MethodGet, path+comments, nil, &all)
		take(all)
		return i, err
	}
	complete, err := list(ctx, c, path+comments, query, take)
	i.More = i.More || !complete
	return i, err
}

func (g github) issue(ctx context.Context, number int) (forge.Issue, error) {
	return g.readIssue(ctx, fmt.Sprintf("%s/issues/%d", g.path, number), "/comments", nil, true)
}

func (g gitlab) issue(ctx context.Context, number int) (forge.Issue, error) {
	return g.readIssue(ctx, fmt.Sprintf("%s/issues/%d", g.path, number), "/notes", url.Values{"sort": {"asc"}, "order_by": {"created_at"}}, true)
}

func (g gitea) issue(ctx context.Context, number int) (forge.Issue, error) {
	return g.readIssue(ctx, fmt.Sprintf("%s/issues/%d", g.path, number), "/comments", nil, false)
}
