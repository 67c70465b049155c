package sandboxes

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// TestCarried: the next sandbox over a workspace may do what the one before it could when it ended, and no more.
func TestCarried(t *testing.T) {
	rule := func(host string) api.EgressRule { return api.EgressRule{Action: api.EgressAllow, Host: host} }
	asked := &api.EgressPolicy{Rules: []api.EgressRule{rule("example.com"), rule("example.org")}}
	narrow := &api.EgressPolicy{Rules: asked.Rules[:1]}
	other := &api.EgressPolicy{Rules: []api.EgressRule{rule("other.example")}}
	closed := &api.EgressPolicy{}
	secret := []api.SecretGrant{{Name: "key"}}
	mine, earlier, nobody := api.NewTaskID(), api.NewTaskID(), api.TaskID("")
	for name, c := range map[string]struct {
		workspace string
		before    []api.Sandbox // the newest first
		egress    *api.EgressPolicy
		secrets   []api.SecretGrant
	}{
		"the first sandbox":                   {"", nil, asked, secret},
		"as it was requested":                 {"", []api.Sandbox{{Task: mine, EgressPolicy: asked, Secrets: secret}}, asked, secret},
		"narrowed":                            {"", []api.Sandbox{{Task: mine, EgressPolicy: narrow, Secrets: secret}}, narrow, secret},
		"closed":                              {"", []api.Sandbox{{Task: mine, Secrets: secret}}, closed, secret},
		"a secret was taken":                  {"", []api.Sandbox{{Task: mine, EgressPolicy: asked, Secrets: []api.SecretGrant{{Name: "key", Revoked: true}}}}, asked, nil},
		"a secret was taken before":           {"", []api.Sandbox{{Task: mine, EgressPolicy: asked}, {Task: mine, EgressPolicy: asked, Secrets: []api.SecretGrant{{Name: "key", Revoked: true}}}}, asked, nil},
		"another secret was taken":            {"", []api.Sandbox{{Task: mine, EgressPolicy: asked, Secrets: []api.SecretGrant{{Name: "other", Revoked: true}}}}, asked, secret},
		"a secret whose time ended":           {"", []api.Sandbox{{Task: mine, EgressPolicy: asked, Secrets: []api.SecretGrant{{Name: "key", EndsAt: new(time.Unix(1, 0))}}}}, asked, secret},
		"the newest of several":               {"", []api.Sandbox{{Task: mine, Secrets: secret}, {Task: mine, EgressPolicy: asked, Secrets: secret}}, closed, secret},
		"an earlier turn of a session":        {"", []api.Sandbox{{Task: earlier, EgressPolicy: narrow, Secrets: secret}}, narrow, secret},
		"a person's own sandbox":              {"", []api.Sandbox{{Task: nobody, EgressPolicy: other}, {Task: mine, EgressPolicy: narrow, Secrets: secret}}, narrow, secret},
		"a workspace with a name":             {"shop", []api.Sandbox{{Task: mine, EgressPolicy: narrow, Secrets: secret}}, narrow, secret},
		"another task in one with a name":     {"shop", []api.Sandbox{{Task: earlier, EgressPolicy: other}}, asked, secret},
		"a person's sandbox in one with name": {"shop", []api.Sandbox{{Task: nobody, EgressPolicy: other}}, asked, secret},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTheater(t)
			id, err := w.host.spaces.Make(t.Context(), workspace.New{Task: mine, Name: c.workspace, Layers: []layer.Digest{layer.Digest(w.layers[0])}})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range c.before {
				row.Workspace = id.ID
				w.host.all = append(w.host.all, row)
			}
			req := api.CreateSandbox{Task: mine, Egress: asked, Secrets: secret}
			if _, err := w.Clean(t.Context(), req, id.ID, w.layers...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Open(t.Context(), req, id.ID, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Clean(t.Context(), req, "", w.layers...); err != nil {
				t.Fatal(err)
			}
			if last := w.host.made[2].req; !reflect.DeepEqual(last, req) {
				t.Errorf("of no workspace: %+v", last)
			}
			for _, made := range w.host.made[:2] {
				if !reflect.DeepEqual(made.req.Egress, c.egress) || !slices.EqualFunc(made.req.Secrets, c.secrets, func(a, b api.SecretGrant) bool { return a.Name == b.Name }) {
					t.Errorf("created from %+v; want %+v and %+v", made.req, c.egress, c.secrets)
				}
			}
		})
	}
}
