package manager

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/outgoing"
)

// Templates makes templates of sandboxes in which commands have run.
type Templates struct {
	planner   *Planner
	origins   *origins
	creator   *Creator
	sandboxes *Sandboxes
	guests    *Guests
	saver     *Saver
}

const (
	// templateTimeout is the default timeout of a command of a template.
	templateTimeout = 10 * time.Minute
	// maxTemplateRuns bounds the commands of a template.
	maxTemplateRuns = 64
)

// CreateTemplate creates a sandbox, runs commands in it, and saves it under a name, with the
// processes that they left running. An existing template of that name is replaced for later
// sandboxes. progress, which may be nil, is called before each step. Nothing is left after an
// error.
//
// Errors: those of Create and Snapshot; KindInvalid for an invalid request; KindConflict for a
// command that fails.
func (t *Templates) CreateTemplate(ctx context.Context, req api.CreateTemplate, progress func(step string)) (_ api.Snapshot, err error) {
	if progress == nil {
		progress = func(string) {}
	}
	if _, err := t.planner.names(req.Name); err != nil {
		return api.Snapshot{}, err
	}
	if len(req.Run) > maxTemplateRuns {
		return api.Snapshot{}, api.Errorf(api.KindInvalid, "a template with %d commands: the maximum is %d", len(req.Run), maxTemplateRuns)
	}
	if err := api.CheckName("template to start from", req.From); err != nil {
		return api.Snapshot{}, err
	}
	if err := api.CheckOnRestore(req.OnRestore); err != nil {
		return api.Snapshot{}, err
	}
	if err := outgoing.NoHeaders(req.DefaultEgress); err != nil {
		return api.Snapshot{}, err
	}
	if _, err := t.planner.policies.Resolve(ctx, outgoing.Request{Policy: req.DefaultEgress}); err != nil {
		return api.Snapshot{}, err
	}
	each := time.Duration(req.TimeoutMS) * time.Millisecond
	if each == 0 {
		each = templateTimeout
	}
	if each < 0 || each > api.MaxTTL {
		return api.Snapshot{}, api.Errorf(api.KindInvalid, "timeout of %d ms is not between 0 and %d", req.TimeoutMS, api.MaxTTL.Milliseconds())
	}
	if _, err := t.origins.store(); err != nil {
		return api.Snapshot{}, err
	}
	// Time for the commands, and for the save after them.
	ttl := min(each*time.Duration(len(req.Run))+restoreTimeout, api.MaxTTL)
	progress("create a sandbox from " + orHost(req.From))
	row, err := t.creator.Create(ctx, api.CreateSandbox{
		Isolation: req.Isolation, Template: req.From, Limits: req.Limits, Env: req.Env, TTLMS: ttl.Milliseconds(),
		Labels: map[string]string{"template": req.Name}, Account: req.Account, Key: req.Key, MaxTTLMS: req.MaxTTLMS,
		Egress: req.Egress, MaxEgress: req.MaxEgress, KeyIsolation: req.KeyIsolation,
	})
	if err != nil {
		return api.Snapshot{}, err
	}
	defer func() {
		if _, _, kerr := t.sandboxes.Kill(context.WithoutCancel(ctx), row.ID); kerr != nil {
			err = errors.Join(err, kerr)
		}
	}()
	if err := t.sandboxes.Held(ctx, row.ID); err != nil { // it is of no use to another daemon
		return api.Snapshot{}, err
	}
	for _, command := range req.Run {
		progress("run " + command)
		// Anyone who asked and goes away ends the sandbox, and with it the command.
		cancel := func() { t.sandboxes.Kill(context.WithoutCancel(ctx), row.ID) }
		if err := t.guests.shell(ctx, row.ID, "template's command", command, each, cancel); err != nil {
			return api.Snapshot{}, err
		}
	}
	progress("save")
	return t.saver.Snapshot(ctx, row.ID, api.CreateSnapshot{Name: req.Name, DefaultEgress: req.DefaultEgress, OnRestore: req.OnRestore})
}

func orHost(template string) string {
	if template == "" {
		return hostTemplate
	}
	return template
}
