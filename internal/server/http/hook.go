package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
)

// Hooks takes the events of forges.
type Hooks interface {
	// Receive takes the request of a forge. It believes nothing of it before its signature.
	Receive(ctx context.Context, id api.RepositoryID, header http.Header, body []byte) (api.HookAnswer, error)
}

// maxEvent is the maximum size of an event of a forge, in bytes.
const maxEvent = 1 << 20

type hooks struct{ Hooks Hooks }

func (d repositories) hookRoutes() []Route {
	return []Route{{
		Method: "PUT", Pattern: "/v1/repositories/{id}/hook", Name: "setRepositoryHook", Role: api.RoleAdmin,
		Doc: "Set which events of a repository's forge start tasks: a label of an issue, a comment that begins with a command. The answer to the first request, and to one with newSecret, has the signing secret, which is not shown again.",
		In:  api.SetRepositoryHook{}, Out: api.RepositoryHookState{},
		Handler: change(http.StatusOK, decode, d.Repositories, d.repositoryID, Repositories.SetHook),
	}, {
		Method: "GET", Pattern: "/v1/repositories/{id}/hook", Name: "repositoryHook", Role: api.RoleAdmin,
		Doc:     "Get which events of a repository's forge start tasks, and the last events.",
		Out:     api.RepositoryHookState{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.Hook),
	}, {
		Method: "DELETE", Pattern: "/v1/repositories/{id}/hook", Name: "removeRepositoryHook", Role: api.RoleAdmin,
		Doc:     "Have no event of a repository's forge start a task. The signing secret is removed.",
		Out:     api.Repository{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.RemoveHook),
	}}
}

func (d hooks) receiveRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/hooks/{id}", Name: "receiveHook", Open: true,
		Doc:    "Receive an event of a forge. It needs no API key: it is signed with the secret of the repository's hook, as GitHub, GitLab and Gitea do. The answer says which task was started, or why none was.",
		InType: typeJSON, Out: api.HookAnswer{}, Status: http.StatusAccepted,
		Handler: d.receive,
	}}
}

// receive takes an event. The body is read up to a bound, and not parsed here.
func (d hooks) receive(w http.ResponseWriter, r *http.Request) error {
	if d.Hooks == nil {
		return api.Errorf(api.KindUnsupported, "this daemon takes no webhooks")
	}
	if r.ContentLength > maxEvent {
		return api.Errorf(api.KindInvalid, "the request has more than %d bytes", maxEvent)
	}
	b, err := body.Form{Max: maxEvent, Member: "field"}.Read(w, r)
	if err != nil {
		return err
	}
	out, err := d.Hooks.Receive(r.Context(), api.RepositoryID(r.PathValue("id")), r.Header, b)
	return reply(w, http.StatusAccepted, out, err)
}
