package access_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/server/access"
)

// connections is one repository, which counts what reaches it.
type connections struct {
	row   api.Repository
	names map[string]api.RepositoryID // "account/name"
	added api.AddRepository
	n     int
	asked string
}

func (c *connections) Add(_ context.Context, req api.AddRepository, _ func(string)) (api.Repository, error) {
	c.n++
	c.added = req
	return c.row, nil
}
func (c *connections) Sync(context.Context, api.RepositoryID, func(string)) (api.Repository, error) {
	c.n++
	return c.row, nil
}
func (c *connections) Schedule(context.Context, api.RepositoryID, api.RepositorySchedule) (api.Repository, error) {
	c.n++
	return c.row, nil
}
func (c *connections) Settings(context.Context, api.RepositoryID, api.RepositorySettings) (api.Repository, error) {
	c.n++
	return c.row, nil
}
func (c *connections) Policy(context.Context, api.RepositoryID) (api.RepositoryPolicyState, error) {
	c.n++
	return api.RepositoryPolicyState{}, nil
}
func (c *connections) SetPolicy(context.Context, api.RepositoryID, api.SetRepositoryPolicy) (api.RepositoryPolicyState, error) {
	c.n++
	return api.RepositoryPolicyState{}, nil
}
func (c *connections) Check(_ context.Context, account string, _ api.CheckRepository) (api.RepositoryAccess, error) {
	c.n++
	c.asked = "check for " + account
	return api.RepositoryAccess{}, nil
}
func (c *connections) Prepare(context.Context, api.RepositoryID) (api.Repository, error) {
	c.n++
	return c.row, nil
}
func (c *connections) Remove(context.Context, api.RepositoryID) (api.Repository, error) {
	c.n++
	return c.row, nil
}
func (c *connections) Get(context.Context, api.RepositoryID) (api.Repository, error) {
	return c.row, nil
}
func (c *connections) Page(_ context.Context, account string, _ api.PageRequest) ([]api.Repository, string, error) {
	c.asked = "page of " + account
	return nil, "", nil
}
func (c *connections) Find(_ context.Context, account, _ string) (api.RepositoryID, error) {
	c.asked = "prefix of " + account
	return "", nil
}
func (c *connections) Set(context.Context, api.RepositoryID, api.SetRepositoryHook) (api.RepositoryHookState, error) {
	c.n++
	return api.RepositoryHookState{}, nil
}
func (c *connections) State(context.Context, api.RepositoryID) (api.RepositoryHookState, error) {
	c.n++
	return api.RepositoryHookState{}, nil
}
func (c *connections) Named(_ context.Context, account, name string) (api.Repository, error) {
	if id, ok := c.names[account+"/"+name]; ok {
		return api.Repository{ID: id}, nil
	}
	return api.Repository{}, api.Errorf(api.KindNotFound, "unknown repository %q", name)
}

func setHook(model string) func(*access.Repositories, context.Context, string) error {
	return func(r *access.Repositories, ctx context.Context, _ string) error {
		_, err := r.SetHook(ctx, "", api.SetRepositoryHook{Hook: api.RepositoryHook{Label: "l", Model: model}})
		return err
	}
}

func showHook(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Hook(ctx, "")
	return err
}

func removeHook(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.RemoveHook(ctx, "")
	return err
}

// TestRepositoriesAreOnesOwn: what writes the cache, or uses the operator's credentials, is for
// admins; the rest is for the account.
func TestRepositoriesAreOnesOwn(t *testing.T) {
	user := func(account string) api.Principal {
		return api.Principal{Role: api.RoleUser, Account: account, Key: "k"}
	}
	admin := api.Principal{Role: api.RoleAdmin, Account: "b", Key: "k"}
	const url, path = "https://example.org/o/r", "/srv/r"
	for _, c := range []struct {
		name string
		who  api.Principal
		url  string
		do   func(*access.Repositories, context.Context, string) error
		kind api.Kind
	}{
		{"the operator adds", api.Operator(), path, add, ""},
		{"an admin adds", admin, url, add, ""},
		{"an admin's key adds a path", admin, path, add, api.KindDenied},
		{"a user adds", user("a"), url, add, api.KindDenied},
		{"nobody adds", api.Principal{}, url, add, api.KindUnauthenticated},
		{"the operator fetches", api.Operator(), path, fetch, ""},
		{"an admin fetches", admin, url, fetch, ""},
		{"an admin's key fetches a path", admin, path, fetch, api.KindDenied},
		{"its user fetches", user("a"), url, fetch, api.KindDenied},
		{"another user fetches", user("b"), url, fetch, api.KindNotFound},
		{"the operator schedules", api.Operator(), path, plan, ""},
		{"an admin schedules", admin, url, plan, ""},
		{"an admin's key schedules a path", admin, path, plan, api.KindDenied},
		{"its user schedules", user("a"), url, plan, api.KindDenied},
		{"another user schedules", user("b"), url, plan, api.KindNotFound},
		{"an admin prepares", admin, url, prepare, ""},
		{"an admin's key prepares a path", admin, path, prepare, api.KindDenied},
		{"its user prepares", user("a"), url, prepare, api.KindDenied},
		{"another user prepares", user("b"), url, prepare, api.KindNotFound},
		{"nobody prepares", api.Principal{}, url, prepare, api.KindUnauthenticated},
		{"the operator tests", api.Operator(), path, check, ""},
		{"an admin tests", admin, url, check, ""},
		{"an admin's key tests a path", admin, path, check, api.KindDenied},
		{"a user tests", user("a"), url, check, api.KindDenied},
		{"nobody tests", api.Principal{}, url, check, api.KindUnauthenticated},
		{"an admin sets the hook", admin, url, setHook(""), ""},
		{"an admin's key sets the hook of a path", admin, path, setHook(""), api.KindDenied},
		{"an admin's key sets a hook with a file as its model", admin, url, setHook("replay:/etc/passwd"), api.KindDenied},
		{"its user sets the hook", user("a"), url, setHook(""), api.KindDenied},
		{"another user sets the hook", user("b"), url, setHook(""), api.KindNotFound},
		{"nobody sets the hook", api.Principal{}, url, setHook(""), api.KindUnauthenticated},
		{"its user sees the hook", user("a"), url, showHook, api.KindDenied},
		{"an admin sees the hook", admin, url, showHook, ""},
		{"its user removes the hook", user("a"), url, removeHook, api.KindDenied},
		{"an admin removes the hook", admin, url, removeHook, ""},
		{"an admin changes", admin, url, settings, ""},
		{"an admin's key changes a path", admin, path, settings, api.KindDenied},
		{"its user changes", user("a"), url, settings, api.KindDenied},
		{"another user changes", user("b"), url, settings, api.KindNotFound},
		{"its user detects", user("a"), url, detect, ""},
		{"another user detects", user("b"), url, detect, api.KindNotFound},
		{"nobody detects", api.Principal{}, url, detect, api.KindUnauthenticated},
		{"its user sees the policy", user("a"), url, showPolicy, ""},
		{"another user sees the policy", user("b"), url, showPolicy, api.KindNotFound},
		{"nobody sees the policy", api.Principal{}, url, showPolicy, api.KindUnauthenticated},
		{"an admin sets the policy", admin, url, setPolicy, ""},
		{"its user sets the policy", user("a"), url, setPolicy, api.KindDenied},
		{"another user sets the policy", user("b"), url, setPolicy, api.KindNotFound},
		{"an admin sets the policy of a directory", admin, path, setPolicy, api.KindDenied},
		{"nobody sets the policy", api.Principal{}, url, setPolicy, api.KindUnauthenticated},
		{"its user removes", user("a"), url, remove, ""},
		{"an admin removes", admin, url, remove, ""},
		{"another user removes", user("b"), url, remove, api.KindNotFound},
		{"nobody removes", api.Principal{}, url, remove, api.KindUnauthenticated},
	} {
		s := &connections{row: api.Repository{ID: api.NewRepositoryID(), Account: "a", URL: c.url, Commit: "c"}}
		inspect := func(context.Context, api.Repository) (api.RepositoryDetected, error) {
			s.n++
			return api.RepositoryDetected{}, nil
		}
		err := c.do(access.NewRepositories(s, s, inspect), api.WithPrincipal(t.Context(), c.who), c.url)
		if want := map[bool]int{true: 1}[c.kind == ""]; api.KindOf(err) != c.kind && err != nil || c.kind != "" && err == nil || s.n != want {
			t.Errorf("%s: %v, %d calls", c.name, err, s.n)
		}
		if c.name == "an admin adds" && s.added.Account != "b" {
			t.Errorf("it is added for %q", s.added.Account)
		}
	}
	s := &connections{row: api.Repository{Account: "a"}, names: map[string]api.RepositoryID{"a/web": "of a", "/web": "of the operator", "/own": "own"}}
	r := access.NewRepositories(s, s, nil)
	for _, c := range []struct {
		who   api.Principal
		name  string
		id    api.RepositoryID
		asked string
	}{
		{user("a"), "web", "of a", ""}, {api.Operator(), "web", "of the operator", ""}, {admin, "web", "of the operator", ""},
		{user("a"), "own", "", "prefix of a"}, {user("b"), "web", "", "prefix of b"}, {admin, "nope", "", "prefix of "},
	} {
		s.asked = ""
		if id, err := r.Find(api.WithPrincipal(t.Context(), c.who), c.name); err != nil || id != c.id || s.asked != c.asked {
			t.Errorf("%+v finds %s as %q, %v, %q", c.who, c.name, id, err, s.asked)
		}
	}
	if _, _, err := r.Page(api.WithPrincipal(t.Context(), user("a")), api.PageRequest{}); err != nil || s.asked != "page of a" {
		t.Errorf("%v, %s", err, s.asked)
	}
	if _, err := r.Get(api.WithPrincipal(t.Context(), user("b")), "r1"); api.KindOf(err) != api.KindNotFound || !strings.Contains(err.Error(), "unknown repository") {
		t.Error(err)
	}
}

func add(r *access.Repositories, ctx context.Context, url string) error {
	_, err := r.Add(ctx, api.AddRepository{URL: url, Account: "forged"}, nil)
	return err
}

func fetch(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Sync(ctx, "r1", nil)
	return err
}

func remove(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Remove(ctx, "r1")
	return err
}

func plan(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Schedule(ctx, "r1", api.RepositorySchedule{PrepareEveryMS: 60_000})
	return err
}

func prepare(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Prepare(ctx, "r1")
	return err
}

func check(r *access.Repositories, ctx context.Context, url string) error {
	_, err := r.Check(ctx, api.CheckRepository{URL: url})
	return err
}

func settings(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Settings(ctx, "r1", api.RepositorySettings{})
	return err
}

func showPolicy(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Policy(ctx, "r1")
	return err
}

func setPolicy(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.SetPolicy(ctx, "r1", api.SetRepositoryPolicy{})
	return err
}

func detect(r *access.Repositories, ctx context.Context, _ string) error {
	_, err := r.Detected(ctx, "r1")
	return err
}
