package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/task/repo"
)

const (
	// closeTimeout bounds the end of the sandbox.
	closeTimeout = time.Minute
	// discardTimeout bounds the removal of the workspace.
	discardTimeout = 15 * time.Minute
	// retryAfter is the time before the first retry of a step; it doubles.
	retryAfter = time.Second
	// lineEvery is how often the last line of a step that runs is an event.
	lineEvery = 2 * time.Second
	// maxLines bounds those events of one step.
	maxLines = 100
)

// outside is where the steps have [dependency.Cache] while they run, relative to the workspace: what is in .git is not
// read from a workspace.
const outside = ".hortus-setup"

// job is one setup.
type job struct {
	*Preparer
	q    repo.SetupRequest
	plan dependency.Plan
	env  map[string]string
	key  string

	policy api.EgressPolicy
	// output is the name of the file with the output of the newest step; "" if it has none.
	output string
}

// install runs the steps and seals their result. The layer is "" if no step could run.
func (j *job) install(ctx context.Context) (_ repo.Layer, _ func(), err error) {
	layers := []repo.Layer{j.q.Layer}
	if j.q.Work != "" {
		layers = append(layers, j.q.Work)
	}
	ws, err := j.cfg.Sandboxes.Workspace(ctx, j.q.Task, layers...)
	if err != nil {
		return "", nil, err
	}
	defer j.discard(ctx, ws)
	ran, err := j.run(ctx, ws)
	if err != nil || !ran {
		return "", nil, err
	}
	return j.seal(ctx, ws)
}

// run runs the steps in a sandbox, which has ended when it returns.
func (j *job) run(ctx context.Context, ws api.WorkspaceID) (ran bool, err error) {
	box, err := j.open(ctx, ws)
	if err != nil {
		return false, err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		proof, cerr := box.Close(late)
		if cerr == nil && proof.Left > 0 {
			cerr = api.Errorf(api.KindInternal, "the setup left %d processes", proof.Left)
		}
		err = errors.Join(err, cerr)
	}()
	missing, err := j.begin(ctx, box)
	if err != nil {
		return false, err
	}
	served := false
	for _, s := range j.plan.Steps {
		if i := slices.IndexFunc(s.Needs, func(name string) bool { return slices.Contains(missing, name) }); i >= 0 {
			note(ctx, j.q, fmt.Sprintf("%s is left out: the sandbox has no %s", s.Name, s.Needs[i]), nil)
			continue
		}
		if s.Offline && !served && j.plan.Recipe {
			// The warm-up and the check may need the services.
			served = true
			if err := repo.Serve(ctx, box, services(j.plan)); err != nil {
				note(ctx, j.q, "services", err)
				return false, &failure{err: err, step: "services"}
			}
		}
		if err := j.step(ctx, box, s); err != nil {
			return false, err
		}
		ran = true
	}
	return ran, nil
}

// open starts the sandbox. If the backend cannot open connections, and nobody asked for any, it has none.
func (j *job) open(ctx context.Context, ws api.WorkspaceID) (repo.Sandbox, error) {
	req := j.q.Sandbox
	j.policy = j.egress(ctx)
	req.Egress, req.Secrets, req.Headers = &j.policy, j.q.Secrets, nil
	req.Env = maps.Clone(j.env)
	for name, value := range quietly(j.policy.Opens()) {
		if _, ok := req.Env[name]; !ok {
			if req.Env == nil {
				req.Env = map[string]string{}
			}
			req.Env[name] = value
		}
	}
	maps.Copy(req.Env, j.q.Sandbox.Env)
	box, err := j.cfg.Sandboxes.Open(ctx, req, ws, nil)
	if j.q.Egress == nil && (api.KindOf(err) == api.KindUnsupported || api.KindOf(err) == api.KindDenied) && j.policy.Opens() {
		why := err
		j.policy = api.EgressPolicy{}
		req.Egress = &j.policy
		maps.Copy(req.Env, quietly(false))
		maps.Copy(req.Env, j.q.Sandbox.Env)
		if box, err = j.cfg.Sandboxes.Open(ctx, req, ws, nil); err != nil {
			return nil, why // it is something else
		}
		note(ctx, j.q, "may not connect to anything: "+why.Error(), nil)
	}
	return box, err
}

// begin makes the directory for what lies outside of the repository, and returns which programs are missing.
func (j *job) begin(ctx context.Context, box repo.Sandbox) (missing []string, err error) {
	needs := map[string]bool{}
	for _, s := range j.plan.Steps {
		for _, name := range s.Needs {
			needs[name] = true
		}
	}
	script := "rm -rf " + outside + " " + dependency.Cache + " && mkdir -p " + outside + " .git && ln -s ../" + outside + " " + dependency.Cache + " || exit 1; " +
		`for p in "$@"; do command -v -- "$p" >/dev/null 2>&1 || echo "$p"; done`
	var out strings.Builder
	ex, err := box.Run(ctx, api.ExecRequest{
		Args: append([]string{"sh", "-c", script, "sh"}, slices.Sorted(maps.Keys(needs))...), Dir: dependency.Workspace, TimeoutMS: time.Minute.Milliseconds(),
	}, func(_ string, p []byte) error {
		if out.Len() < 64<<10 {
			out.Write(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ex.Exit.Code != 0 || ex.Exit.Cause != "" {
		return nil, api.Errorf(api.KindInternal, "the setup's directory could not be created (exit %d %s): %.300s", ex.Exit.Code, ex.Exit.Cause, out.String())
	}
	return strings.Fields(out.String()), nil
}

// step runs one step with its retries.
func (j *job) step(ctx context.Context, box repo.Sandbox, s dependency.Step) error {
	e := api.RepoStepEvent{Step: step, Detail: s.Name}
	for try := 0; ; try++ {
		var why error
		err := j.q.Step(ctx, e, func() (string, error) {
			var err error
			why, err = j.command(ctx, box, s, e)
			switch {
			case err != nil:
				return "", err
			case why == nil:
				return s.Name, nil
			case s.Optional:
				return fmt.Sprintf("%s: %s; what it did is kept", s.Name, why), nil
			case try < s.Retries:
				return fmt.Sprintf("%s: %s; try %d of %d follows in %s", s.Name, why, try+2, s.Retries+1, retryAfter<<try), nil
			}
			return s.Name, why
		})
		switch {
		case why == nil && err != nil: // nobody saw its end
			return err
		case why == nil || s.Optional:
			return nil
		case try >= s.Retries:
			return &failure{err: why, step: s.Name, output: j.output, task: j.q.Task}
		}
		select {
		case <-time.After(retryAfter << try):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// command runs a step once. why says how it failed.
func (j *job) command(ctx context.Context, box repo.Sandbox, s dependency.Step, e api.RepoStepEvent) (why, err error) {
	out := &observe.Capture{}
	j.output = ""
	if name := j.q.NextLog(); name != "" {
		j.output = filepath.Base(name)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "save the output of the setup: %w", err)
		}
		defer f.Close()
		out.Whole = f
	}
	lines := &liner{say: func(line string) {
		at := e
		at.Line = line
		j.q.Emit(ctx, at)
	}, last: time.Now()}
	ex, err := box.Run(ctx, api.ExecRequest{
		Args: []string{"sh", "-c", s.Run}, Dir: within(s.Dir), TimeoutMS: s.Timeout.Milliseconds(), Tag: step,
	}, func(_ string, p []byte) error {
		lines.write(p)
		_, err := out.Write(p)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ex.Exit.Cause == api.CauseFull, errors.Is(err, syscall.ENOSPC): // of the step, or of its output
		return nil, api.Errorf(api.KindExhausted, "%s: no space left on the disk of %s", s.Name, j.cfg.Sandboxes.Disk()).
			WithHint("Free disk space: hortus gc. hortus df shows the usage.")
	case ex.Exit.Cause == api.CauseDisk:
		return nil, &failure{err: api.Errorf(api.KindExhausted, "%s wrote more than the disk of the sandbox may have (--disk)", s.Name), output: j.output, task: j.q.Task}
	case err != nil:
		return nil, err
	case ex.State == api.ExecUnknown && ex.Exit.Cause == "":
		return nil, api.Errorf(api.KindUnavailable, "the exit status of %s in sandbox %s is unknown", s.Name, ex.Sandbox)
	case ex.Exit.Code == 0 && ex.Exit.Cause == "":
		return nil, nil
	case ex.Exit.Cause == api.CauseTimeout:
		return api.Errorf(api.KindTimeout, "no end within %s", s.Timeout), nil
	}
	text := fmt.Sprintf("exit %d", ex.Exit.Code)
	if ex.Exit.Cause != "" {
		text = ex.Exit.Cause
	}
	if said := tail(out.Text()); said != "" {
		text += ": " + said
	}
	if more := advise(j.policy, j.q); more != "" && !s.Offline {
		text += " (" + more + ")"
	}
	return api.Errorf(api.KindInvalid, "%s", text), nil
}

// tail returns the last lines of an output in one line.
func tail(text string) string {
	const most = 400
	lines := strings.FieldsFunc(strings.TrimSpace(strings.ToValidUTF8(text, "?")), func(c rune) bool { return c == '\n' || c == '\r' })
	out := strings.Join(lines[max(0, len(lines)-3):], " | ")
	if len(out) > most {
		out = "..." + strings.ToValidUTF8(out[len(out)-most:], "")
	}
	return out
}

// liner notices the last line of an output, now and then.
type liner struct {
	say   func(string)
	last  time.Time
	told  int
	bytes []byte
}

func (l *liner) write(p []byte) {
	const most = 1 << 10
	l.bytes = append(l.bytes, p[max(0, len(p)-most):]...)
	l.bytes = l.bytes[max(0, len(l.bytes)-most):]
	if l.told == maxLines || time.Since(l.last) < lineEvery {
		return
	}
	l.last = time.Now()
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.bytes), ""))
	if line := strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:]); line != "" {
		l.told++
		l.say(line)
	}
}
