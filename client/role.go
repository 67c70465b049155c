package client

import (
	"context"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// RoleService asks one role of the pipeline alone.
type RoleService struct{ service }

// Plan asks the Planner alone.
func (s *RoleService) Plan(ctx context.Context, model string, req api.PlanRequest) (api.ExecutionPlan, error) {
	var out api.ExecutionPlan
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/plan", modelQuery(model), req, &out)
}

// Code asks the Coder alone.
func (s *RoleService) Code(ctx context.Context, model string, plan api.ExecutionPlan) (api.CodeArtifact, error) {
	var out api.CodeArtifact
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/code", modelQuery(model), plan, &out)
}

// Debug asks the Debugger alone.
func (s *RoleService) Debug(ctx context.Context, model string, req api.DebugRequest) (api.Diagnosis, error) {
	var out api.Diagnosis
	return out, s.client.query(ctx, http.MethodPost, "/v1/roles/debug", modelQuery(model), req, &out)
}

func modelQuery(model string) url.Values {
	if model == "" {
		return nil
	}
	return url.Values{"model": {model}}
}
