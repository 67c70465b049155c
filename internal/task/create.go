package task

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/artifact"
)

// MaxRequest is the longest sentence, in bytes.
const MaxRequest = 16 << 10

// DefaultModel is what a request without a model is asked of.
const DefaultModel = "offline"

// check refuses what makes no sense and fills in the defaults, so that the row
// says what really ran and a replay is exact.
func (e *Engine) check(ctx context.Context, req api.CreateTask) (api.CreateTask, error) {
	invalid := func(format string, args ...any) (api.CreateTask, error) {
		return req, api.Errorf(api.KindInvalid, format, args...)
	}
	if err := req.CheckBounds(); err != nil {
		return req, err
	}
	given := 0
	for _, set := range []bool{req.Request != "", req.Artifact != nil, req.Replay != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return invalid("a task needs exactly one of a sentence, an artifact and a replay; got %d", given)
	}
	if req.Request != "" {
		switch {
		case strings.TrimSpace(req.Request) == "":
			return invalid("the sentence is empty")
		case len(req.Request) > MaxRequest:
			return invalid("the sentence has %d bytes; at most %d are allowed", len(req.Request), MaxRequest)
		case strings.ContainsRune(req.Request, 0):
			return invalid("the sentence contains a NUL byte")
		case !utf8.ValidString(req.Request):
			return invalid("the sentence is not UTF-8")
		}
	}
	if err := checkModels(req); err != nil {
		return req, err
	}
	if err := checkInputs(req); err != nil {
		return req, err
	}
	if string(req.Schema) == "null" {
		req.Schema = nil
	}
	if _, err := compiled(req.Schema); err != nil {
		return req, err
	}
	if req.Artifact != nil {
		if err := artifact.Validate(*req.Artifact); err != nil {
			return req, err
		}
	}
	if req.Attempts < 0 || req.Attempts > api.MaxAttempts {
		return invalid("attempts is %d; it must be between 1 and %d", req.Attempts, api.MaxAttempts)
	}
	for _, ms := range []int64{req.InstallTimeoutMS, req.RunTimeoutMS} {
		if ms < 0 || ms > api.MaxTTL.Milliseconds() {
			return invalid("timeout of %d ms is out of range; it must be between 1 and %d", ms, api.MaxTTL.Milliseconds())
		}
	}
	if req.Sandbox.Task != "" {
		return invalid("sandbox.task must be empty; the task sets it")
	}
	if req.Repo != nil && req.Repo.PrepareOnly && req.Schema != nil {
		return invalid("schema and prepareOnly exclude each other: a preparation has no result")
	}
	if req.Repo != nil {
		return e.checkRepo(req)
	}
	if len(req.SetupSecrets) > 0 {
		return invalid("only the setup of a repository has secrets of its own; the install command of a program uses those of the sandbox")
	}
	if req.Sandbox.Workspace != "" {
		return invalid("only a task on a repository can have a workspace")
	}
	if req.Replay != nil {
		return e.checkReplay(ctx, req)
	}
	if req.Model == "" && req.Request != "" {
		req.Model = DefaultModel
	}
	switch {
	case req.Request == "" && req.Attempts > 1:
		return invalid("attempts is %d, but a given program runs only once", req.Attempts)
	case req.Request == "":
		req.Attempts = 1
	case req.Attempts == 0:
		req.Attempts = api.DefaultAttempts
	}
	if req.InstallTimeoutMS == 0 {
		req.InstallTimeoutMS = api.DefaultInstallTimeout.Milliseconds()
	}
	if req.RunTimeoutMS == 0 {
		req.RunTimeoutMS = api.DefaultRunTimeout.Milliseconds()
	}
	return req, nil
}

// compiled reads the schema of a request; nil for none.
func compiled(raw json.RawMessage) (*answer.Schema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return answer.Compile(raw)
}

// checkSandbox refuses what the sandboxes of a request would refuse, in any of its phases.
func checkSandbox(ctx context.Context, check func(context.Context, api.CreateSandbox) error, req api.CreateTask) error {
	if err := check(ctx, req.Sandbox); err != nil || req.SetupEgress == nil && len(req.SetupSecrets) == 0 {
		return err
	}
	setup := req.Sandbox
	setup.Egress, setup.Secrets, setup.Headers = req.SetupEgress, req.SetupSecrets, nil
	if err := check(ctx, setup); err != nil {
		return api.Errorf(api.KindOf(err), "the install phase: %w", err).WithHint("%s", api.HintOf(err))
	}
	return nil
}

// checkReplay takes the recorded timeouts and limits of the task that is run
// again. Only the isolation may be another.
func (e *Engine) checkReplay(ctx context.Context, req api.CreateTask) (api.CreateTask, error) {
	r := req.Replay
	if !r.Task.Valid() || r.Attempt < 1 {
		return req, api.Errorf(api.KindInvalid, "replay of task %q attempt %d: invalid task or attempt", clip(string(r.Task)), r.Attempt)
	}
	if req.InstallTimeoutMS != 0 || req.RunTimeoutMS != 0 || req.Attempts > 1 || req.Sandbox.Limits != (api.Limits{}) || req.Sandbox.Env != nil || req.Sandbox.Egress != nil || req.Sandbox.Secrets != nil || req.Sandbox.Headers != nil || req.SetupEgress != nil || req.Files != nil || req.Schema != nil {
		return req, api.Errorf(api.KindInvalid, "a replay uses the recorded files, schema, timeouts, limits, environment and egress policy; they cannot be set")
	}
	old, err := e.cfg.Store.Task(ctx, r.Task)
	if err != nil {
		return req, err
	}
	if req.Files, err = e.givenAgain(old); err != nil {
		return req, err
	}
	req.Attempts, req.SetupEgress, req.Schema = 1, old.Create.SetupEgress, old.Create.Schema
	req.InstallTimeoutMS, req.RunTimeoutMS = old.Create.InstallTimeoutMS, old.Create.RunTimeoutMS
	for _, name := range old.EnvNames {
		if _, ok := old.Env[name]; !ok {
			return req, api.Errorf(api.KindConflict, "cannot decrypt the environment values of task %s", old.ID).
				WithHint("restore hortus.db-key in the data directory, or create a new task with its environment")
		}
	}
	box := old.Sandbox()
	box.Task = ""
	if req.Sandbox.Isolation != "" {
		box.Isolation = req.Sandbox.Isolation
	}
	if req.Sandbox.TTLMS != 0 {
		box.TTLMS = req.Sandbox.TTLMS
	}
	if req.Sandbox.Template != "" && req.Sandbox.Template != box.Template {
		return req, api.Errorf(api.KindInvalid, "a replay uses the recorded template; it cannot be set")
	}
	if req.Sandbox.Labels != nil {
		box.Labels = req.Sandbox.Labels
	}
	req.Sandbox = box
	return req, nil
}

// program finds the program of a task that needs no model.
func (e *Engine) program(ctx context.Context, req api.CreateTask) (*api.CodeArtifact, error) {
	if req.Replay == nil {
		return req.Artifact, nil
	}
	old, err := e.cfg.Store.Task(ctx, req.Replay.Task)
	if err != nil {
		return nil, err
	}
	for _, a := range old.Attempts {
		if a.N == req.Replay.Attempt {
			return &a.Artifact, nil
		}
	}
	return nil, api.Errorf(api.KindNotFound, "task %s has no attempt %d", old.ID, req.Replay.Attempt).
		WithHint("It has %d attempts; list them with: hortus task show %s.", len(old.Attempts), old.ID)
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
