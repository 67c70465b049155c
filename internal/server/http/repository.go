package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Repositories is what the server asks of connected repositories. progress receives the lines
// of git's progress, one after the other, before the method returns; it may be nil.
type Repositories interface {
	Add(ctx context.Context, req api.AddRepository, progress func(line string)) (api.Repository, error)
	Sync(ctx context.Context, id api.RepositoryID, progress func(line string)) (api.Repository, error)
	Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error)
	Settings(ctx context.Context, id api.RepositoryID, req api.RepositorySettings) (api.Repository, error)
	// Check tests the rights that the caller has at a repository, which need not be connected.
	Check(ctx context.Context, req api.CheckRepository) (api.RepositoryAccess, error)
	// Policy returns the branch policy of a repository, SetPolicy changes it.
	Policy(ctx context.Context, id api.RepositoryID) (api.RepositoryPolicyState, error)
	SetPolicy(ctx context.Context, id api.RepositoryID, req api.SetRepositoryPolicy) (api.RepositoryPolicyState, error)
	// Detected says what was found in the commit of a repository.
	Detected(ctx context.Context, id api.RepositoryID) (api.RepositoryDetected, error)
	// Prepare requests a preparation, which runs in the background.
	Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	// SetHook, Hook and RemoveHook are about what starts tasks of a repository at its forge.
	SetHook(ctx context.Context, id api.RepositoryID, req api.SetRepositoryHook) (api.RepositoryHookState, error)
	Hook(ctx context.Context, id api.RepositoryID) (api.RepositoryHookState, error)
	RemoveHook(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Get(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Page(ctx context.Context, p api.PageRequest) (rows []api.Repository, next string, err error)
	// Find takes a name, or a unique beginning of an id.
	Find(ctx context.Context, nameOrPrefix string) (api.RepositoryID, error)
}

func (d repositories) repositoryRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/repositories", Name: "addRepository", Role: api.RoleAdmin, Creates: true,
		Doc: `Connect a repository and fetch it. The answer has one JSON value per line: {"progress": ...} while git works, then {"repository": ...}.`,
		In:  api.AddRepository{}, OutType: typeLines, Out: api.RepositoryLine{},
		Handler: d.add,
	}, {
		Method: "GET", Pattern: "/v1/repositories", Name: "repositories", Role: api.RoleUser,
		Doc: "List the connected repositories, newest first.",
		Out: []api.Repository{}, Paged: true,
		Handler: page(func(ctx context.Context, _ *http.Request, p api.PageRequest) ([]api.Repository, string, error) {
			return d.Repositories.Page(ctx, p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/repositories/{id}", Name: "repository", Role: api.RoleUser,
		Doc:     "Get a repository, by its name, its id or a unique prefix of that.",
		Out:     api.Repository{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.Get),
	}, {
		Method: "POST", Pattern: "/v1/repositories/{id}/sync", Name: "syncRepository", Role: api.RoleAdmin,
		Doc: `Fetch what is new in a repository. With "prepare", it is then prepared in the background. The answer has one JSON value per line: {"progress": ...} while git works, then {"repository": ...}.`,
		In:  api.SyncRepository{}, Optional: true, OutType: typeLines, Out: api.RepositoryLine{},
		Handler: d.sync,
	}, {
		Method: "PUT", Pattern: "/v1/repositories/{id}/schedule", Name: "scheduleRepository", Role: api.RoleAdmin,
		Doc: "Set how often a repository is prepared. The interval begins at the end of a preparation; the first one begins at once. 0 ends the schedule.",
		In:  api.RepositorySchedule{}, Out: api.Repository{},
		Handler: d.schedule,
	}, {
		Method: "PUT", Pattern: "/v1/repositories/{id}/settings", Name: "setRepository", Role: api.RoleAdmin,
		Doc: "Change the gate command of a repository's tasks, or the secret with the token for it. What is left out stays. A new token must be able to read the repository.",
		In:  api.RepositorySettings{}, Out: api.Repository{},
		Handler: change(http.StatusOK, decode, d.Repositories, d.repositoryID, Repositories.Settings),
	}, {
		Method: "GET", Pattern: "/v1/repositories/{id}/policy", Name: "repositoryPolicy", Role: api.RoleUser,
		Doc:     "Get the branch policy of a repository: each value with where it comes from, what a task would deliver, and suggestions. Names of branches are from the repository, and untrusted.",
		Out:     api.RepositoryPolicyState{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.Policy),
	}, {
		Method: "PUT", Pattern: "/v1/repositories/{id}/policy", Name: "setRepositoryPolicy", Role: api.RoleAdmin,
		Doc: `Set the branch policy of a repository, within that of the operator, in place of the one that it has. An empty policy removes it. The forge is asked what it has against a delivery. With "dryRun", nothing is stored.`,
		In:  api.SetRepositoryPolicy{}, Out: api.RepositoryPolicyState{},
		Handler: change(http.StatusOK, decode, d.Repositories, d.repositoryID, Repositories.SetPolicy),
	}, {
		Method: "GET", Pattern: "/v1/repositories/{id}/detected", Name: "repositoryDetected", Role: api.RoleUser,
		Doc:     "Say what was found in the last fetched commit of a repository: the commands that its tests could be run with, and those that install what it needs; and the branch policy. Nothing is run. The texts are from the repository, and untrusted.",
		Out:     api.RepositoryDetected{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.Detected),
	}, {
		Method: "POST", Pattern: "/v1/repositories/check", Name: "checkRepository", Role: api.RoleAdmin,
		Doc: "Test what may be done with a repository, which need not be connected: read, push, open merge requests. Nothing is changed. The reasons may hold text of the server.",
		In:  api.CheckRepository{}, Out: api.RepositoryAccess{},
		Handler: d.check,
	}, {
		Method: "DELETE", Pattern: "/v1/repositories/{id}", Name: "removeRepository", Role: api.RoleUser,
		Doc:     "Disconnect a repository. Its copy stays in the cache until it is collected.",
		Out:     api.Repository{},
		Handler: on(d.Repositories, d.repositoryID, Repositories.Remove),
	}}
}

// repositoryID reads the identifier in the path: a name, a whole id, or a unique prefix.
func (d repositories) repositoryID(r *http.Request) (api.RepositoryID, error) {
	return pathID(r, d.Repositories, func(s Repositories, ctx context.Context, name string) (api.RepositoryID, error) {
		if !api.ValidRepositoryName(name) {
			return "", api.Errorf(api.KindInvalid, "%.40q is neither the name nor the ID of a repository", name)
		}
		return s.Find(ctx, name)
	})
}

// add connects a repository. If the client disconnects, the fetch is cancelled, and nothing
// is connected.
func (d repositories) add(w http.ResponseWriter, r *http.Request) error {
	var in api.AddRepository
	if err := decode(w, r, &in); err != nil {
		return err
	}
	return fetching(w, func(progress func(string)) (api.Repository, error) {
		return d.Repositories.Add(r.Context(), in, progress)
	})
}

// sync fetches a repository. If the client disconnects, the fetch is cancelled.
func (d repositories) sync(w http.ResponseWriter, r *http.Request) error {
	id, err := d.repositoryID(r)
	if err != nil {
		return err
	}
	var in api.SyncRepository
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	return fetching(w, func(progress func(string)) (api.Repository, error) {
		row, err := d.Repositories.Sync(r.Context(), id, progress)
		if err != nil || !in.Prepare {
			return row, err
		}
		return d.Repositories.Prepare(r.Context(), id)
	})
}

// schedule sets how often a repository is prepared.
func (d repositories) schedule(w http.ResponseWriter, r *http.Request) error {
	id, err := d.repositoryID(r)
	if err != nil {
		return err
	}
	var in api.RepositorySchedule
	if err := decode(w, r, &in); err != nil {
		return err
	}
	row, err := d.Repositories.Schedule(r.Context(), id, in)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, row)
	return nil
}

// check tests the rights that the caller has at a repository.
func (d repositories) check(w http.ResponseWriter, r *http.Request) error {
	var in api.CheckRepository
	if err := decode(w, r, &in); err != nil {
		return err
	}
	can, err := d.Repositories.Check(r.Context(), in)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, can)
	return nil
}

// fetching streams the progress of a fetch and its result.
func fetching(w http.ResponseWriter, do func(progress func(string)) (api.Repository, error)) error {
	out := lines{w: w}
	v, err := do(func(line string) { out.write(api.RepositoryLine{Type: api.LineStep, Progress: line}) })
	if err == nil {
		out.write(api.RepositoryLine{Type: api.LineDone, Repository: &v})
	}
	return out.end(err)
}
