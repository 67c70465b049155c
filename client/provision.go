package client

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
)

// Provision gives the sandbox of a task of the caller's own, which it makes when the
// task has none. The same request gives the same sandbox while that lives.
func (c *Client) Provision(ctx context.Context, req api.ProvisionRequest) (api.Provisioned, error) {
	var out api.Provisioned
	return out, c.call(ctx, http.MethodPost, "/v1/provision", req, &out)
}

// provisioned is the path of a sandbox by its id or its task's.
func provisioned(idOrTask string) (string, error) {
	if !api.ValidTaskID(idOrTask) && !api.SandboxID(idOrTask).Valid() {
		return "", api.Errorf(api.KindInvalid, "%.130q is the id of neither a sandbox nor a task", idOrTask)
	}
	return "/v1/provision/" + idOrTask, nil
}

// Provisioned gives the sandbox of a task, by its own id or the task's.
func (c *Client) Provisioned(ctx context.Context, idOrTask string) (api.Provisioned, error) {
	var out api.Provisioned
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodGet, path, nil, &out)
}

// WaitProvisioned waits until the sandbox runs. A timeout of 0 is the daemon's 30 s;
// it is cut to whole seconds.
func (c *Client) WaitProvisioned(ctx context.Context, idOrTask string, timeout time.Duration) (api.Provisioned, error) {
	var out api.Provisioned
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodPost, path+"/wait", api.WaitRequest{Timeout: int(timeout / time.Second)}, &out)
}

// DestroyProvisioned ends the sandbox of a task, with proof.
func (c *Client) DestroyProvisioned(ctx context.Context, idOrTask string) (api.Destroyed, error) {
	var out api.Destroyed
	path, err := provisioned(idOrTask)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodDelete, path, nil, &out)
}

// Execute runs a piece of code in a sandbox. Files, packages and environment variables
// stay for the next.
func (s *Sandbox) Execute(ctx context.Context, req api.ExecuteRequest) (api.Executed, error) {
	var out api.Executed
	return out, s.client.call(ctx, http.MethodPost, s.path("/execute"), req, &out)
}
