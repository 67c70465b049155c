package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
)

// grantRest is what is left of the life of a token when it is not used any more: a fetch or a push that begins with it must end with it.
const grantRest = 5 * time.Minute

// installations has the tokens of installations of GitHub Apps, in memory only.
type installations struct {
	http *http.Client
	now  func() time.Time

	mu     sync.Mutex
	grants map[string]rest.Grant // by repository, app and key
}

// grant returns a token for a repository. fresh requests a new one, for a test: an older one has the rights that the installation had then.
// Requests at the same time may each get a token, and the last one is kept.
func (s *installations) grant(ctx context.Context, l forge.Location, app api.GitHubApp, key string, fresh bool) (rest.Grant, error) {
	// A key that was replaced leads to no token of the key before it.
	id := fmt.Sprintf("%s %s %d %d %x", l.API, l.Path(), app.ID, app.Installation, sha256.Sum256([]byte(key)))
	s.mu.Lock()
	maps.DeleteFunc(s.grants, func(_ string, g rest.Grant) bool { return g.Ends.Sub(s.now()) <= grantRest })
	have, found := s.grants[id]
	s.mu.Unlock()
	if found && !fresh {
		return have, nil
	}
	parsed, err := rest.ParseKey(key)
	if err != nil {
		return rest.Grant{}, err
	}
	g, err := (rest.App{ID: app.ID, Installation: app.Installation, Key: parsed}).Grant(ctx, rest.Config{Location: l, HTTP: s.http, Now: s.now})
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.grants, id); err != nil {
		return g, err
	}
	s.grants[id] = g
	return g, nil
}

// tokenOf returns the token for a request to a remote, for a purpose such as "git", with the credential of a connected repository. The
// secret is read each time, also if an app has a token still.
func (d *Deliverer) tokenOf(ctx context.Context, row api.Repository, purpose, remote string) (string, error) {
	value, err := d.keyOf(ctx, row.Account, row.Secret, purpose, remote)
	if err != nil || row.App == nil {
		return value, err
	}
	l, err := d.locate(ctx, remote, row.Forge)
	if err != nil {
		return "", err
	}
	g, err := d.apps.grant(ctx, l, *row.App, value, false)
	return g.Token, err
}

// test requests a new token of an app. refused is why the app gets none; err is that its key cannot be read.
func (d *Deliverer) test(ctx context.Context, row api.Repository, l forge.Location, remote string) (g rest.Grant, refused, err error) {
	if row.Forge != forge.GitHub {
		return g, nil, api.Errorf(api.KindInvalid, "a GitHub App is for repositories at GitHub or GitHub Enterprise Server, and %s is none", remote).WithHint("use a token")
	}
	key, err := d.keyOf(ctx, row.Account, row.Secret, "forge", remote)
	if err != nil {
		return g, nil, err
	}
	g, refused = d.apps.grant(ctx, l, *row.App, key, true)
	return g, refused, nil
}

// permissionsOf are the permissions of an app that a right needs.
var permissionsOf = map[string][]string{
	api.RightPush: {"contents"}, api.RightMergeRequest: {"pull_requests"}, api.RightIssues: {"issues"}, api.RightChecks: {"checks", "statuses", "actions"},
}

// lacking is the error of an installation without permissions.
func lacking(g rest.Grant, missing []rest.Permission) error {
	var names []string
	for _, p := range missing {
		names = append(names, p.String())
	}
	all := strings.Join(names, ", ")
	return api.Errorf(api.KindDenied, "the app's installation lacks %s", all).WithHint("%s", g.Fix(all))
}
