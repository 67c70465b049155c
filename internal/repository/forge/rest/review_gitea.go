package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

func (g gitea) request(ctx context.Context, number int) (forge.Review, error) {
	return g.pullReview(ctx, g.path, number)
}

func (g gitea) self(ctx context.Context) (string, error) { return g.login(ctx) }

func (g gitea) remarks(ctx context.Context, number int) (all []remark, complete bool, err error) {
	var comments []pullRemark // all at once
	if _, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/issues/%d/comments", g.path, number), nil, &comments); err != nil {
		return nil, false, err
	}
	for _, p := range comments {
		all = append(all, p.remark("comment"))
	}
	reviews := fmt.Sprintf("%s/pulls/%d/reviews", g.path, number)
	var with []int64
	complete, err = list(ctx, g.client, reviews, nil, func(page []struct {
		pullRemark
		Count int `json:"comments_count"`
	}) bool {
		for _, p := range page {
			if p.Count > 0 && p.State != "PENDING" {
				with = append(with, p.ID)
			}
			if p.written() {
				m := p.remark("review")
				m.Changes = p.State == "REQUEST_CHANGES"
				all = append(all, m)
			}
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	for _, id := range with {
		var lines []pullRemark
		if _, err := g.call(ctx, http.MethodGet, fmt.Sprintf("%s/%d/comments", reviews, id), nil, &lines); err != nil {
			return nil, false, err
		}
		for _, p := range lines {
			m := p.remark("line")
			m.Line = p.Position
			all = append(all, m)
		}
	}
	return all, complete, nil
}

// mayWrite asks for the permission. Gitea tells it only to a token whose user administers the repository; nobody needs to be asked
// about the repository's owner.
func (g gitea) mayWrite(ctx context.Context, by author) (bool, error) {
	if strings.EqualFold(by.Login, g.cfg.Location.Owner) {
		return true, nil
	}
	may, err := g.permission(ctx, g.path, by.Login)
	if api.KindOf(err) == api.KindDenied {
		err = g.errorf(api.KindDenied, "the token may not ask which people may write to %s, so no comment is taken", g.cfg.Location.Path()).
			WithHint("Make the user of the token an administrator of the repository.")
	}
	return may, err
}

func (g gitea) checks(ctx context.Context, commit string) ([]forge.Check, int, error) {
	var t tally
	err := g.statuses(ctx, &t, fmt.Sprintf("%s/commits/%s/status?limit=50", g.path, url.PathEscape(commit)))
	return t.failed, t.pending, err
}
