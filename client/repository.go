package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"hortus.dev/api"
)

// RepositoryService connects repositories and keeps their copies current.
type RepositoryService struct{ service }

// Add connects a repository and fetches it. progress, unless it is nil, gets the lines of
// git's progress. The end of ctx ends the fetch, and nothing is connected then. It fails with
// KindExists if the name, or the address with the branch, is connected already.
func (s *RepositoryService) Add(ctx context.Context, req api.AddRepository, progress func(line string)) (api.Repository, error) {
	return s.fetch(ctx, "/v1/repositories", req, progress)
}

// Sync fetches what is new in a repository, named as for [RepositoryService.Get]. progress is
// as for Add. The end of ctx ends the fetch; what was fetched earlier stays.
func (s *RepositoryService) Sync(ctx context.Context, id string, progress func(line string)) (api.Repository, error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return api.Repository{}, err
	}
	return s.fetch(ctx, "/v1/repositories/"+seg+"/sync", nil, progress)
}

// SyncAndPrepare is Sync, after which the daemon prepares the repository in the background:
// Preparation in the answer of Get says how that stands.
func (s *RepositoryService) SyncAndPrepare(ctx context.Context, id string, progress func(line string)) (api.Repository, error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return api.Repository{}, err
	}
	return s.fetch(ctx, "/v1/repositories/"+seg+"/sync", api.SyncRepository{Prepare: true}, progress)
}

// Schedule sets how often the daemon prepares a repository by itself, at least a minute; 0
// ends that.
func (s *RepositoryService) Schedule(ctx context.Context, id string, every time.Duration) (api.Repository, error) {
	var out api.Repository
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, "/v1/repositories/"+seg+"/schedule", api.RepositorySchedule{PrepareEveryMS: every.Milliseconds()}, &out)
}

// Check tests what may be done with a repository, which need not be connected. Nothing is changed.
func (s *RepositoryService) Check(ctx context.Context, req api.CheckRepository) (out api.RepositoryAccess, err error) {
	return out, s.client.call(ctx, http.MethodPost, "/v1/repositories/check", req, &out)
}

// Detected says what was found in the last fetched commit of a repository, named as for [RepositoryService.Get]. The texts are
// from the repository, and untrusted.
func (s *RepositoryService) Detected(ctx context.Context, id string) (out api.RepositoryDetected, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/repositories/"+seg+"/detected", nil, &out)
}

// Settings changes the settings of a repository, named as for [RepositoryService.Get].
func (s *RepositoryService) Settings(ctx context.Context, id string, req api.RepositorySettings) (out api.Repository, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, "/v1/repositories/"+seg+"/settings", req, &out)
}

// Policy returns the branch policy of a repository, named as for [RepositoryService.Get]. Names of branches are untrusted.
func (s *RepositoryService) Policy(ctx context.Context, id string) (out api.RepositoryPolicyState, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/repositories/"+seg+"/policy", nil, &out)
}

// SetPolicy sets the branch policy of a repository, within that of the operator, named as for [RepositoryService.Get]. An empty one removes it.
func (s *RepositoryService) SetPolicy(ctx context.Context, id string, req api.SetRepositoryPolicy) (out api.RepositoryPolicyState, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, "/v1/repositories/"+seg+"/policy", req, &out)
}

// SetHook sets which events of a repository's forge start tasks, named as for [RepositoryService.Get]. The answer has the signing secret
// if it is a new one; it is not shown again.
func (s *RepositoryService) SetHook(ctx context.Context, id string, req api.SetRepositoryHook) (out api.RepositoryHookState, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, "/v1/repositories/"+seg+"/hook", req, &out)
}

// Hook returns which events of a repository's forge start tasks, and the last events.
func (s *RepositoryService) Hook(ctx context.Context, id string) (out api.RepositoryHookState, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/repositories/"+seg+"/hook", nil, &out)
}

// RemoveHook has no event of a repository's forge start a task.
func (s *RepositoryService) RemoveHook(ctx context.Context, id string) (out api.Repository, err error) {
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, "/v1/repositories/"+seg+"/hook", nil, &out)
}

// fetch reads the lines about a fetch until its result.
func (s *RepositoryService) fetch(ctx context.Context, path string, in any, progress func(string)) (api.Repository, error) {
	resp, err := s.client.request(ctx, http.MethodPost, path, nil, in)
	if err != nil {
		return api.Repository{}, err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	for {
		var line api.RepositoryLine
		err := dec.Decode(&line)
		switch {
		case err != nil && ctx.Err() != nil:
			return api.Repository{}, ctx.Err()
		case errors.Is(err, io.EOF):
			return api.Repository{}, api.Errorf(api.KindUnavailable, "the daemon ended before the repository was fetched").WithHint("try again: what was fetched earlier is kept")
		case err != nil:
			return api.Repository{}, api.Errorf(api.KindUnavailable, "the fetch of the repository was interrupted: %w", err)
		case line.Error != nil:
			return api.Repository{}, line.Error.Err()
		case line.Repository != nil:
			return *line.Repository, nil
		case line.Progress != "" && progress != nil:
			progress(line.Progress)
		}
	}
}

// Get returns a repository by its name, its identifier or a unique beginning of that. It
// fails with KindNotFound when there is none.
func (s *RepositoryService) Get(ctx context.Context, id string) (api.Repository, error) {
	var out api.Repository
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, "/v1/repositories/"+seg, nil, &out)
}

// List lists the connected repositories, the newest first.
func (s *RepositoryService) List(ctx context.Context) ([]api.Repository, error) {
	return collect[api.Repository](ctx, s.client, "/v1/repositories", nil, 0)
}

// All yields the connected repositories, the newest first, page by page. It ends with the
// first error.
func (s *RepositoryService) All(ctx context.Context) iter.Seq2[api.Repository, error] {
	return walk[api.Repository](ctx, s.client, "/v1/repositories", nil)
}

// Remove disconnects a repository, named as for [RepositoryService.Get]. Its copy stays on the
// daemon's disk, with the results of tasks, until it is collected.
func (s *RepositoryService) Remove(ctx context.Context, id string) (api.Repository, error) {
	var out api.Repository
	seg, err := repositorySegment(id)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, "/v1/repositories/"+seg, nil, &out)
}

// repositorySegment checks what becomes a part of a path: a name or an id.
func repositorySegment(id string) (string, error) {
	if !api.RepositoryID(id).Valid() && !api.ValidRepositoryName(id) {
		return "", api.Errorf(api.KindInvalid, "%.80q is neither the name nor the ID of a repository", id)
	}
	return id, nil
}
