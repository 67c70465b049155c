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
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/repo"
)

const (
	// closeTimeout bounds the end of the sandbox.
	closeTimeout = time.Minute
	// discardTimeout bounds the removal of the workspace.
	discardTimeout = 15 * time.Minute
	// retryAfter is the time before the first retry of a step; it doubles.
	retryAfter = time.Second
)

// outside is where the steps have [dependency.Cache] while they run, relative to the workspace: what is in .git is not
// read from a workspace.
const outside = ".hortus-setup"

// maxPath is the longest PATH of a sandbox that is kept, in bytes.
const maxPath = 16 << 10

// job is one setup.
type job struct {
	*Preparer
	q    repo.SetupRequest
	plan dependency.Plan
	env  map[string]string
	key  string

	// n counts the results of the key that are there, and made is the record of the job's own, or of the one that it takes.
	n    int
	made record

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
	sandbox, err := j.open(ctx, ws)
	if err != nil {
		return false, err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		proof, cerr := sandbox.Close(late)
		if cerr == nil && proof.Left > 0 {
			cerr = api.Errorf(api.KindInternal, "the setup left %d processes", proof.Left)
		}
		err = errors.Join(err, cerr)
	}()
	missing, err := j.begin(ctx, sandbox)
	if err != nil {
		return false, err
	}
	served := false
	for _, s := range j.plan.Steps {
		if i := slices.IndexFunc(s.Needs, func(name string) bool { return slices.Contains(missing, name) }); i >= 0 {
			why := fmt.Sprintf("%s is left out: the sandbox has no %s", s.Name, s.Needs[i])
			note(ctx, j.q, why, nil)
			j.made.NotInstalled = append(j.made.NotInstalled, api.NotInstalled{Language: s.Language(), Program: s.Needs[i], Why: why})
			continue
		}
		if s.Offline && !served && j.plan.Recipe {
			// The warm-up and the check may need the services.
			served = true
			if err := repo.Serve(ctx, sandbox, services(j.plan)); err != nil {
				note(ctx, j.q, "services", err)
				return false, &failure{err: err, step: "services"}
			}
		}
		if err := j.step(ctx, sandbox, s); err != nil {
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
	sandbox, err := j.cfg.Sandboxes.Open(ctx, req, ws, nil)
	if j.q.Egress == nil && (api.KindOf(err) == api.KindUnsupported || api.KindOf(err) == api.KindDenied) && j.policy.Opens() {
		why := err
		j.policy = api.EgressPolicy{}
		req.Egress = &j.policy
		maps.Copy(req.Env, quietly(false))
		maps.Copy(req.Env, j.q.Sandbox.Env)
		if sandbox, err = j.cfg.Sandboxes.Open(ctx, req, ws, nil); err != nil {
			return nil, why // it is something else
		}
		note(ctx, j.q, "may not connect to anything: "+why.Error(), nil)
	}
	return sandbox, err
}

// begin makes the directory for what lies outside of the repository, and returns which programs are missing.
func (j *job) begin(ctx context.Context, sandbox repo.Sandbox) (missing []string, err error) {
	needs := map[string]bool{}
	for _, s := range j.plan.Steps {
		for _, name := range s.Needs {
			needs[name] = true
		}
	}
	script := "rm -rf " + outside + " " + dependency.Cache + " && mkdir -p " + outside + " .git && ln -s ../" + outside + " " + dependency.Cache + " || exit 1; " +
		`printf 'PATH=%s\n' "$PATH"; for p in "$@"; do command -v -- "$p" >/dev/null 2>&1 || echo "$p"; done`
	var out strings.Builder
	ex, err := sandbox.Run(ctx, api.ExecRequest{
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
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "PATH="); ok && len(value) <= maxPath && !strings.ContainsFunc(value, unicode.IsControl) {
			j.made.Path = value
		} else if !ok {
			missing = append(missing, line)
		}
	}
	return missing, nil
}

// step runs one step with its retries.
func (j *job) step(ctx context.Context, sandbox repo.Sandbox, s dependency.Step) error {
	e := api.RepoStepEvent{Step: step, Detail: s.Name}
	for try := 0; ; try++ {
		var why error
		err := j.q.Step(ctx, e, func() (string, error) {
			var err error
			why, err = j.command(ctx, sandbox, s, e)
			switch {
			case err != nil:
				return "", err
			case why == nil:
				return s.Name, nil
			case s.Optional:
				if !s.Offline {
					j.made.NotInstalled = append(j.made.NotInstalled, api.NotInstalled{Language: s.Language(), Why: "step " + s.Name + ": " + why.Error()})
				}
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
			return &failure{err: why, step: s.Name, language: s.Language(), output: j.output, task: j.q.Task}
		}
		select {
		case <-time.After(retryAfter << try):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// command runs a step once. why says how it failed.
func (j *job) command(ctx context.Context, sandbox repo.Sandbox, s dependency.Step, e api.RepoStepEvent) (why, err error) {
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
	lines := gate.NewRunning(time.Now, func(line string) {
		at := e
		at.Line = line
		j.q.Emit(ctx, at)
	})
	args := []string{"sh", "-c", s.Run}
	if path := strings.Join(j.plan.Path, ":"); path != "" {
		args = []string{"sh", "-c", `PATH="$1:$PATH"; export PATH; exec sh -c "$2"`, "sh", path, s.Run}
	}
	ex, err := sandbox.Run(ctx, api.ExecRequest{
		Args: args, Dir: within(s.Dir), TimeoutMS: s.Timeout.Milliseconds(), Tag: step,
	}, func(_ string, p []byte) error {
		lines.Write(p)
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
	case ex.Exit.Cause == api.CauseAccount:
		return nil, &failure{err: api.Errorf(api.KindExhausted, "%s: the account stores as much as it may", s.Name).
			WithHint("hortus df shows what is stored, and who stores it."), output: j.output, task: j.q.Task}
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
	if more := advise(j.policy, j.q, s.Language()); more != "" && !s.Offline {
		text += " (" + more + ")"
	}
	return api.Errorf(api.KindInvalid, "%s", text), nil
}

// tail returns the last lines of an output in one line, but of Maven's the first that says what is wrong: after it come links to its manual.
func tail(text string) string {
	const most = 400
	lines := strings.FieldsFunc(strings.TrimSpace(strings.ToValidUTF8(text, "?")), func(c rune) bool { return c == '\n' || c == '\r' })
	lines = lines[max(0, len(lines)-3):]
	if m := mavenError.FindStringSubmatch(text); m != nil {
		lines = []string{m[1] + ": " + strings.TrimSpace(m[2])}
	}
	out := strings.Join(lines, " | ")
	if len(out) > most {
		out = "..." + strings.ToValidUTF8(out[len(out)-most:], "")
	}
	return out
}

var mavenError = lazyregexp.New(`(Could not (?:transfer|find) artifact \S+)[^\r\n]*?[:,] ([^:,@>\r\n]*(?:: [^:,@>\r\n]*)?)(?: @[^\r\n]*| -> [^\r\n]*)?(?:[\r\n]|$)`)

// registries are the presets that a setup gets if nobody decided: those that the install commands of programs get.
func registries() []string { return []string{"npm", "pip", "go"} }

// all is the preset of all package registries.
const all = "registries"

// policy returns what the steps may connect to. A repository can ask for less than the task allows, never for more.
func policy(asked []string, allowed *api.EgressPolicy) (p api.EgressPolicy, denied []string) {
	have := registries()
	if allowed != nil {
		p, have = *allowed, allowed.Presets
		p.Presets = nil
	}
	for _, name := range asked {
		switch {
		case slices.Contains(have, name), slices.Contains(have, all) && (name == "apt" || slices.Contains(registries(), name)):
			p.Presets = append(p.Presets, name)
		default:
			denied = append(denied, name)
		}
	}
	return p, denied
}

// egress returns the policy of the steps, and says what is denied.
func (j *job) egress(ctx context.Context) api.EgressPolicy {
	p, denied := policy(j.plan.Presets, j.q.Egress)
	for _, name := range denied {
		note(ctx, j.q, fmt.Sprintf("may not connect to %s, which the repository asks for; to allow it: --setup-egress %s", name, name), nil)
	}
	return p
}

// quietly are variables of installers: they ask nothing, and connect to nothing but their registry.
func quietly(opens bool) map[string]string {
	env := map[string]string{
		"CI": "1", "NO_COLOR": "1", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive",
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_PROGRESS_BAR": "off",
		"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_progress": "false", "npm_config_logs_max": "0",
		"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "POETRY_VIRTUALENVS_IN_PROJECT": "true", "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",
		"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "4000",
		"PIP_RETRIES": "2", "npm_config_fetch_retries": "2",
	}
	if !opens {
		// Nothing can be connected to, so they give up at once.
		env["PIP_RETRIES"], env["npm_config_fetch_retries"], env["GOPROXY"] = "0", "0", "off"
	}
	return env
}

// advise says how a step that failed could connect to what it needs.
func advise(p api.EgressPolicy, q repo.SetupRequest, l api.Language) string {
	if p.Opens() || q.Egress != nil {
		return ""
	}
	allow := strings.Join(registries(), ",")
	if hosts := map[api.Language]string{
		api.Java: "repo.maven.apache.org", api.Rust: "index.crates.io,static.crates.io", api.Ruby: "rubygems.org,index.rubygems.org", api.PHP: "repo.packagist.org",
	}[l]; hosts != "" {
		allow = hosts
	}
	return "the setup may not connect to anything; to allow a registry: --setup-egress " + allow
}
