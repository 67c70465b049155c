package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// hookCalls are the calls of a kind of forge that answer events.
type hookCalls interface {
	// writer reports whether the account with a login and an ID may write to the repository. A login that is another account's now is
	// not that account.
	writer(ctx context.Context, login string, id int64) (bool, error)
	// comment writes a comment on an issue.
	comment(ctx context.Context, issue int, body string) error
}

// MayWrite reports whether the account with a login and an ID, as an event names it, may write to the repository. The forge is asked; if it
// does not say, that is an error.
func (f *Forge) MayWrite(ctx context.Context, login string, id int64) (bool, error) {
	if login == "" || id <= 0 {
		return false, nil
	}
	return f.calls.writer(ctx, login, id)
}

// Comment writes a comment on an issue.
func (f *Forge) Comment(ctx context.Context, issue int, body string) error {
	if issue <= 0 || strings.TrimSpace(body) == "" || len(body) > forge.MaxBody {
		return api.Errorf(api.KindInvalid, "a comment needs the number of an issue and a text of at most %d bytes", forge.MaxBody)
	}
	return f.calls.comment(ctx, issue, body)
}

// collaborator asks GitHub and Gitea for the permission of an account.
func (c *client) collaborator(ctx context.Context, path, login string, id int64) (bool, error) {
	var p struct {
		Permission string
		User       struct {
			ID    int64
			Login string
		}
	}
	_, err := c.call(ctx, http.MethodGet, path+"/collaborators/"+url.PathEscape(login)+"/permission", nil, &p)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil // no account any more
	}
	if err != nil {
		return false, err
	}
	same := p.User.ID == id && strings.EqualFold(p.User.Login, login)
	return same && slices.Contains([]string{"write", "maintain", "admin", "owner"}, p.Permission), nil
}

func (c *client) say(ctx context.Context, path, body string) error {
	_, err := c.call(ctx, http.MethodPost, path, map[string]string{"body": body}, nil)
	return err
}

func (g github) writer(ctx context.Context, login string, id int64) (bool, error) {
	return g.collaborator(ctx, g.path, login, id)
}

func (g github) comment(ctx context.Context, issue int, body string) error {
	return g.say(ctx, fmt.Sprintf("%s/issues/%d/comments", g.path, issue), body)
}

func (g gitea) writer(ctx context.Context, login string, id int64) (bool, error) {
	may, err := g.collaborator(ctx, g.path, login, id)
	if api.KindOf(err) == api.KindDenied {
		err = g.errorf(api.KindDenied, "the token may not ask which people may write to %s", g.cfg.Location.Path()).
			WithHint("Make the user of the token an administrator of the repository.")
	}
	return may, err
}

func (g gitea) comment(ctx context.Context, issue int, body string) error {
	return g.say(ctx, fmt.Sprintf("%s/issues/%d/comments", g.path, issue), body)
}

func (g gitlab) writer(ctx context.Context, login string, id int64) (bool, error) {
	var m struct {
		Username string
		Level    int `json:"access_level"`
	}
	_, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/members/all/%d", g.path, id), nil, &m)
	if api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	if err != nil || m.Level < developer || !strings.EqualFold(m.Username, login) {
		return false, err
	}
	var u struct{ Bot bool } // the user of an access token, or a service account
	_, err = g.call(ctx, http.MethodGet, fmt.Sprintf("users/%d", id), nil, &u)
	return err == nil && !u.Bot, err
}

func (g gitlab) comment(ctx context.Context, issue int, body string) error {
	return g.say(ctx, fmt.Sprintf("%s/issues/%d/notes", g.path, issue), body)
}
