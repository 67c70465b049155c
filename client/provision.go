package client

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
)

// ProvisionService gives each task of the caller a sandbox of its own.
type ProvisionService struct{ service }

// Create returns the sandbox of a task of the caller's own, which it makes when the
// task has none. The same request gives the same sandbox while that lives.
func (s *ProvisionService) Create(ctx context.Context, req api.ProvisionRequest) (api.Provisioned, error) {
	var out api.Provisioned
	return out, s.client.call(ctx, http.MethodPost, "/v1/provision", req, &out)
}

// provisioned is the path of a sandbox by its id or its task's.
func provisioned(idOrTask string) (string, error) {
	if !api.ValidTaskID(idOrTask) && !api.SandboxID(idOrTask).Valid() {
		return "", api.Errorf(api.KindInvalid, "%.130q is neither a sandbox ID nor a task ID", idOrTask)
	}
	return "/v1/provision/" + idOrTask, nil
}

// Get returns the sandbox of a task, by its own id or the task's.
func (s *ProvisionService) Get(ctx context.Context, idOrTask string) (api.Provisioned, error) {
	var out api.Provisioned
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, path, nil, &out)
}

// Wait waits until the sandbox runs. A timeout of 0 is the daemon's 30 s;
// it is cut to whole seconds.
func (s *ProvisionService) Wait(ctx context.Context, idOrTask string, timeout time.Duration) (api.Provisioned, error) {
	var out api.Provisioned
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPost, path+"/wait", api.WaitRequest{Timeout: int(timeout / time.Second)}, &out)
}

// Destroy ends the sandbox of a task, with proof.
func (s *ProvisionService) Destroy(ctx context.Context, idOrTask string) (api.Destroyed, error) {
	var out api.Destroyed
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, path, nil, &out)
}

// Execute runs a piece of code in a sandbox. Files, packages and environment variables
// stay for the next.
func (s *Sandbox) Execute(ctx context.Context, req api.ExecuteRequest) (api.Executed, error) {
	var out api.Executed
	return out, s.client.call(ctx, http.MethodPost, s.path("/execute"), req, &out)
}
