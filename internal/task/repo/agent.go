package repo

import (
	"context"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/repository/filerule"
)

// staff is who works: the loop with its models, or a program in the sandbox.
type agentSpec struct {
	agent               string // the program; empty for the loop
	model, large, small model.Model
	runtime             Runtime // zero for the loop
	// variant is how a candidate differs from the request.
	variant   api.Variant
	modelName string
}

// as is a task for this one alone.
func (s *agentSpec) as(t api.Task) api.Task {
	if t.Create.Repo.Best == nil {
		return t
	}
	r := *t.Create.Repo
	r.Agent, r.Best = s.agent, nil
	t.Create.Repo, t.Create.Model = &r, s.modelName
	return t
}

// external reports whether it is a program.
func (s *agentSpec) external() bool { return s.agent != "" }

// install installs the program.
func (w *attempt) install(ctx context.Context) error {
	if !w.spec.external() || w.req.PrepareOnly {
		return nil
	}
	if w.cfg.Runtimes == nil {
		return api.Errorf(api.KindUnsupported, "no agents but Hortus's own can be used here")
	}
	q := SetupRequest{
		Task: w.task.ID, Sandbox: w.sandbox(), NextLog: func() string { return w.logs.next(w.project.dir) }, Step: w.do,
		Emit: func(ctx context.Context, e api.RepoStepEvent) { w.tell(ctx, api.EventRepoStep, e) },
	}
	var err error
	if w.spec.runtime, err = w.cfg.Runtimes.Prepare(ctx, w.spec.as(w.task), q); err != nil {
		return err
	}
	w.held = append(w.held, w.spec.runtime.Release)
	return w.spec.unbidden(ctx, w.project)
}

// unbidden refuses a repository that has what the agent would obey. Files that are off limits are not there.
func (s *agentSpec) unbidden(ctx context.Context, p *project) error {
	if len(s.runtime.Obeys) == 0 {
		return nil
	}
	for _, m := range p.members {
		files, _, err := visible(ctx, m.repo, m.base, m.files)
		if err != nil {
			return err
		}
		for _, f := range files {
			for _, path := range s.runtime.Obeys {
				if f.Path == path || strings.HasPrefix(f.Path, path+"/") {
					return api.Errorf(api.KindDenied, "the repository has %.200s, which the agent %s would follow, and run what it names", f.Path, s.runtime.Label).
						WithHint("use another agent, or hide it: --off-limits '%s/**'", path)
				}
			}
		}
	}
	return nil
}

// layers are those of the workspace, the lowest first.
func (s *agentSpec) layers(p *project) []Layer {
	layers := p.prepared.Below(p.members.layers()...)
	if s.runtime.Layer != "" {
		layers = append([]Layer{s.runtime.Layer}, layers...)
	}
	return layers
}

// access is what cannot be changed in the sandbox of the agent: files of the project, and those of the program.
func (s *agentSpec) access(ctx context.Context, p *project) ([]filerule.Access, error) {
	list, err := p.access(ctx)
	if err == nil && s.runtime.Root != "" {
		list = filerule.Fix(list, s.runtime.Root)
	}
	return list, err
}

// box is the sandbox of the agent: that of the task with what the program needs. A gate has neither.
func (s *agentSpec) box(p *project) api.CreateSandbox {
	box := p.prepared.Into(p.sandbox())
	if len(s.runtime.Secrets) > 0 {
		box.Secrets = append(append([]api.SecretGrant(nil), box.Secrets...), s.runtime.Secrets...)
	}
	return box
}

// name names who works, for people.
func (s *agentSpec) name() string {
	if s.external() {
		return s.runtime.Label
	}
	return s.model.Name()
}
