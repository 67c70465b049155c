package task

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/repository/forge"
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
	if req.Repo != nil && req.Repo.NoAgent() && req.Schema != nil {
		return invalid("schema and prepareOnly exclude each other: a preparation has no result")
	}
	if req.Repo != nil {
		return e.checkRepo(ctx, req)
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
		return req, api.Errorf(api.KindInvalid, "replay of task %.64q attempt %d: invalid task or attempt", string(r.Task), r.Attempt)
	}
	if req.InstallTimeoutMS != 0 || req.RunTimeoutMS != 0 || req.Attempts > 1 || req.Sandbox.Limits != (api.Limits{}) || req.Sandbox.Env != nil || req.Sandbox.Egress != nil || req.Sandbox.Secrets != nil || req.Sandbox.Headers != nil || req.SetupEgress != nil || req.Files != nil || req.Schema != nil {
		return req, api.Errorf(api.KindInvalid, "a replay uses the recorded files, schema, timeouts, limits, environment and egress policy; they cannot be set")
	}
	old, err := e.cfg.Store.Task(ctx, r.Task)
	if err != nil {
		return req, err
	}
	if req.Files, err = e.folders.inputsOf(old); err != nil {
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
	sandbox := old.Sandbox()
	sandbox.Task = ""
	if req.Sandbox.Isolation != "" {
		sandbox.Isolation = req.Sandbox.Isolation
	}
	if req.Sandbox.TTLMS != 0 {
		sandbox.TTLMS = req.Sandbox.TTLMS
	}
	if req.Sandbox.Template != "" && req.Sandbox.Template != sandbox.Template {
		return req, api.Errorf(api.KindInvalid, "a replay uses the recorded template; it cannot be set")
	}
	if req.Sandbox.Labels != nil {
		sandbox.Labels = req.Sandbox.Labels
	}
	req.Sandbox = sandbox
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

// ready finds out, before a line is written, that programs of a language have
// nothing to run them in the sandboxes of a request: attempts would only repeat
// the same end.
func ready(ctx context.Context, find func(context.Context, api.CreateSandbox) ([]api.Tool, error), sandbox api.CreateSandbox, name api.Language) error {
	l, ok := language.Of(name)
	if !ok || find == nil {
		return nil
	}
	tools, err := find(ctx, sandbox)
	if err != nil {
		return err
	}
	lacks := l.Lacks(tools)
	if lacks == "" {
		return nil
	}
	var others []string
	for _, other := range language.All() {
		if other.Lacks(tools) == "" {
			others = append(others, other.Title)
		}
	}
	where := "is not installed on this machine, which the sandbox shows"
	hint := "Install it on this machine (on Debian: apt install " + l.Package + ") and run the command again."
	if t := sandbox.Template; t != "" && t != api.HostTemplate {
		where = "is not in the template " + t
		hint = "Use a template or an image that has it."
	}
	if len(others) > 0 {
		hint += " Available languages: " + strings.Join(others, ", ") + "."
	}
	return api.Errorf(api.KindUnsupported, "the program would be %s, but %s %s", l.Title, lacks, where).WithHint("%s", hint)
}

// Bounds of a request about a repository, in bytes and numbers.
const (
	maxURL      = 4 << 10
	maxVerify   = api.MaxVerify
	maxDocument = 64 << 10
	maxMutant   = 256 << 10
)

// checkRepo refuses what makes no sense and fills in the defaults.
func (e *Engine) checkRepo(ctx context.Context, req api.CreateTask) (api.CreateTask, error) {
	invalid := func(format string, args ...any) (api.CreateTask, error) {
		return req, api.Errorf(api.KindInvalid, format, args...)
	}
	if e.cfg.Repositories == nil {
		return req, api.Errorf(api.KindUnsupported, "git is not installed, and work on repositories needs it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	r := *req.Repo
	req.Repo = &r
	if err := e.savedGate(ctx, &r, req.Sandbox.Account); err != nil {
		return req, err
	}
	if err := e.savedIsolation(ctx, &req, &r); err != nil {
		return req, err
	}
	switch {
	case req.Request == "":
		return invalid("a task on a repository needs a sentence as its request")
	case req.Attempts != 0 || req.InstallTimeoutMS != 0 || req.Keep:
		return invalid("attempts, install timeouts and kept sandboxes cannot be used with a repository")
	case req.Sandbox.Workspace != "":
		return invalid("sandbox.workspace cannot be used with a repository; use repo.workspace")
	case r.Workspace != "" && r.NoAgent():
		return invalid("workspace excludes prepareOnly and gateOnly")
	case r.PrepareOnly && r.GateOnly:
		return invalid("prepareOnly and gateOnly exclude each other")
	case r.GateOnly && (r.Push || r.MergeRequest || r.Mutant != ""):
		return invalid("gateOnly changes nothing: push, mergeRequest and mutant cannot be used with it")
	case r.NoSetup && r.PrepareOnly:
		return invalid("noSetup and prepareOnly exclude each other")
	case r.URL == "" || len(r.URL) > maxURL || len(r.Ref) > 1<<10:
		return invalid("the repository's url or ref is empty or too long")
	case len(r.Verify) > maxVerify || strings.ContainsRune(r.Verify, 0) || r.Verify != "" && strings.TrimSpace(r.Verify) == "":
		return invalid("the verify command is empty, too long or contains a NUL byte")
	case len(r.Context)+len(r.Documents) > api.MaxTaskDocuments:
		return invalid("too many documents: %d; the maximum for a task is %d", len(r.Context)+len(r.Documents), api.MaxTaskDocuments)
	case len(r.Mutant) > maxMutant:
		return invalid("the mutant's patch has %d bytes; the maximum is %d", len(r.Mutant), maxMutant)
	case r.Rounds < -1 || r.Rounds > api.MaxRounds:
		return invalid("rounds is %d; it must be between 0 (the default), -1 (never) and %d", r.Rounds, api.MaxRounds)
	case r.Budget.Steps < 0 || r.Budget.Tokens < 0 || r.Budget.CostUSD < 0 || r.Budget.WallMS < 0 || r.Budget.OutputBytes < 0:
		return invalid("a budget is negative")
	case r.Budget.WallMS > api.MaxTTL.Milliseconds():
		return invalid("a wall-clock budget of %d ms exceeds the maximum lifetime of a sandbox (%s)", r.Budget.WallMS, api.MaxTTL)
	case req.RunTimeoutMS < 0 || req.RunTimeoutMS > api.MaxTTL.Milliseconds():
		return invalid("timeout of %d ms is out of range", req.RunTimeoutMS)
	case r.Overlap.Check() != nil:
		return req, r.Overlap.Check()
	case r.Author.Name == "" || r.Author.Email == "":
		return req, api.Errorf(api.KindInvalid, "a task on a repository needs an author with a name and an e-mail address").
			WithHint("Set --author 'Name <email>', or configure git: git config --global user.name ...")
	}
	if r.Workspace != "" && !api.WorkspaceID(r.Workspace).Valid() {
		if err := api.CheckWorkspaceName(r.Workspace); err != nil {
			return req, err
		}
	}
	if err := checkRepositories(r); err != nil {
		return req, err
	}
	if err := checkDelivery(r); err != nil {
		return req, err
	}
	if err := checkAgent(req); err != nil {
		return req, err
	}
	if err := setFilePolicy(&r.FilePolicy, e.cfg.OffLimits); err != nil {
		return req, err
	}
	for _, d := range r.Context {
		if d.Name == "" || len(d.Name) > 256 || len(d.Text) > maxDocument || !utf8.ValidString(d.Text) {
			return invalid("context document %.64q has no name, is not UTF-8 text or has more than %d bytes", d.Name, maxDocument)
		}
	}
	if err := e.readDocuments(ctx, req.Sandbox.Account, &r); err != nil {
		return req, err
	}
	if err := checkUntil(&r, req.Schema != nil); err != nil {
		return req, err
	}
	if r.Until == "" {
		r.Rounds = cmp.Or(r.Rounds, api.DefaultRounds)
	}
	b, of := &r.Budget, 1
	if r.Best != nil {
		of = r.Best.All() // the defaults are for each candidate
	}
	b.Steps = cmp.Or(b.Steps, of*api.DefaultSteps)
	b.Tokens = cmp.Or(b.Tokens, int64(of)*api.DefaultTokens)
	if b.WallMS == 0 {
		b.WallMS = api.DefaultWall.Milliseconds()
	}
	b.OutputBytes = cmp.Or(b.OutputBytes, int64(of)*api.DefaultOutput)
	if External(req) == "" {
		req.Model = cmp.Or(req.Model, DefaultModel)
	}
	return req, e.lineup.check(req)
}

// checkUntil refuses passes that make no sense, and fills in their defaults.
func checkUntil(r *api.RepoTask, schema bool) error {
	if r.Until == "" {
		if r.Passes != 0 {
			return api.Errorf(api.KindInvalid, "passes is set without until").WithHint("set the command that ends the passes: --until CMD")
		}
		return nil
	}
	if len(r.Until) > maxVerify || strings.ContainsRune(r.Until, 0) || strings.TrimSpace(r.Until) == "" {
		return api.Errorf(api.KindInvalid, "the command of until is empty, too long or contains a NUL byte")
	}
	if r.Passes < 0 || r.Passes > api.MaxPasses {
		return api.Errorf(api.KindInvalid, "passes is %d; it must be between 1 and %d", r.Passes, api.MaxPasses)
	}
	for _, x := range []struct {
		set       bool
		name, why string
	}{
		{r.Rounds != 0, "rounds", "each pass is a new agent; set the maximum number of passes instead (--passes)"},
		{r.Best != nil, "best", "several candidates have rounds of their own"},
		{r.Mutant != "", "mutant", "its gate must fail, and the command must pass"},
		{r.PrepareOnly, "prepareOnly", "no agent works"},
		{r.GateOnly, "gateOnly", "no agent works"},
		{schema, "schema", "a value is the word of one agent"},
	} {
		if x.set {
			return api.Errorf(api.KindInvalid, "until and %s exclude each other: %s", x.name, x.why)
		}
	}
	r.Verify, r.Passes = cmp.Or(r.Verify, r.Until), cmp.Or(r.Passes, api.DefaultPasses)
	return nil
}

// savedGate sets the gate command of a connected repository in a request that has none.
func (e *Engine) savedGate(ctx context.Context, r *api.RepoTask, account string) (err error) {
	if e.cfg.Gate == nil || r.Verify != "" || r.Until != "" || r.PrepareOnly || r.Item != nil || len(r.Also) > 0 {
		return nil
	}
	r.Verify, err = e.cfg.Gate(ctx, account, r.URL)
	return err
}

// savedIsolation sets the default isolation of connected repositories in a request that names none. Repositories with different ones
// are refused: none of them comes first.
func (e *Engine) savedIsolation(ctx context.Context, req *api.CreateTask, r *api.RepoTask) error {
	defer func() { req.Sandbox.IsolationFrom = r.IsolationFrom }()
	if e.cfg.Isolation == nil || req.Sandbox.Isolation != "" {
		return nil // r.IsolationFrom is that of a request that was checked before, such as a plan's
	}
	r.IsolationFrom = ""
	for _, m := range r.All() {
		row, err := e.cfg.Isolation(ctx, req.Sandbox.Account, m.URL)
		if err != nil {
			return err
		}
		switch have := req.Sandbox.Isolation; {
		case row.Isolation == "":
		case have == "":
			req.Sandbox.Isolation, r.IsolationFrom = row.Isolation, row.Name
		case have != row.Isolation:
			return api.Errorf(api.KindConflict, "the default isolation of repository %s is %s, and that of repository %s is %s", r.IsolationFrom, have, row.Name, row.Isolation).
				WithHint("name one for the request: --isolation %s", have)
		}
	}
	return nil
}

// readDocuments puts the stored documents that a request names into its context, as they are now. What it leaves of the
// names are paths in the commit, which is not known yet.
func (e *Engine) readDocuments(ctx context.Context, account string, r *api.RepoTask) error {
	var paths, names []string
	for i, name := range r.Documents {
		switch {
		case slices.Contains(r.Documents[:i], name):
			return api.Errorf(api.KindInvalid, "document %.200q is named twice", name)
		case r.NoAgent():
			return api.Errorf(api.KindInvalid, "documents exclude prepareOnly and gateOnly: no agent reads them")
		case api.ValidContextFile(name):
			paths = append(paths, name)
		case api.ValidDocumentName(name):
			names = append(names, name)
		default:
			return api.Errorf(api.KindInvalid, "%.200q is neither the name of a stored document nor the path of a file in %s", name, api.ContextDir).
				WithHint("list both: hortus document ls --repo REPOSITORY")
		}
	}
	r.Documents = paths
	if len(names) == 0 {
		return nil
	}
	if e.cfg.Documents == nil {
		return api.Errorf(api.KindUnsupported, "this daemon stores no documents")
	}
	var repositories []string
	for _, m := range r.All() {
		repositories = append(repositories, m.URL)
	}
	docs, err := e.cfg.Documents.Read(ctx, account, repositories, names)
	r.Context = slices.Concat(r.Context, docs)
	return err
}

// checkRepositories refuses a list of repositories that makes no sense.
func checkRepositories(r api.RepoTask) error {
	if len(r.Also) == 0 {
		if r.Name != "" {
			return api.Errorf(api.KindInvalid, "repo.name is the directory of one of several repositories; also has no others")
		}
		return nil
	}
	all := r.All()
	if len(all) > api.MaxTaskRepositories {
		return api.Errorf(api.KindInvalid, "%d repositories; the maximum for a task is %d", len(all), api.MaxTaskRepositories)
	}
	seen := map[string]bool{}
	for _, m := range all {
		switch {
		case !api.ValidRepositoryName(m.Name):
			return api.Errorf(api.KindInvalid, "%.80q is not a valid name for the directory of a repository", m.Name).
				WithHint(`use 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit`)
		case seen[m.Name]:
			return api.Errorf(api.KindInvalid, "two repositories have the directory %s", m.Name).WithHint("set another name: NAME=%s", m.URL)
		case m.URL == "" || len(m.URL) > maxURL || len(m.Ref) > 1<<10 || len(m.Remote) > maxURL:
			return api.Errorf(api.KindInvalid, "the url, ref or remote of the repository %s is empty or too long", m.Name)
		case m.Remote != "" && !r.Push && !r.MergeRequest:
			return api.Errorf(api.KindInvalid, "the repository %s has a remote without a push", m.Name)
		}
		seen[m.Name] = true
	}
	if r.PrepareOnly {
		return api.Errorf(api.KindInvalid, "prepareOnly is for one repository; also has others")
	}
	return nil
}

// setFilePolicy checks what a request says of files, and puts the globs of the daemon before it.
func setFilePolicy(p *api.FilePolicy, offLimits []string) error {
	if err := p.CheckBounds(); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	p.OffLimits = slices.Concat(offLimits, p.OffLimits)
	return nil
}

// checkDelivery refuses a delivery that makes no sense.
func checkDelivery(r api.RepoTask) error {
	if r.Issue != "" {
		if _, _, err := forge.SplitIssue(r.Issue); err != nil {
			return err
		}
	}
	switch {
	case len(r.Remote) > maxURL || len(r.Target) > 1<<10:
		return api.Errorf(api.KindInvalid, "the remote or the target is too long")
	case (r.Target != "" || r.Draft) && !r.MergeRequest:
		return api.Errorf(api.KindInvalid, "a target or a draft is set without a merge request")
	case r.Remote != "" && !r.Push && !r.MergeRequest:
		return api.Errorf(api.KindInvalid, "a remote is set without a push")
	}
	return nil
}

// checkInputs refuses files that cannot be put into a program's directory.
func checkInputs(req api.CreateTask) error {
	if len(req.Files) > api.MaxInputFiles {
		return api.Errorf(api.KindInvalid, "%d files are given; the maximum is %d", len(req.Files), api.MaxInputFiles)
	}
	if len(req.Files) > 0 && req.Repo != nil {
		return api.Errorf(api.KindInvalid, "files are given with a request on a repository").WithHint("Commit them to the repository.")
	}
	total := 0
	var names []string
	if req.Artifact != nil {
		for _, f := range req.Artifact.Files {
			names = append(names, f.Path)
		}
	}
	for _, f := range req.Files {
		if err := artifact.Path(f.Path); err != nil {
			return api.Errorf(api.KindInvalid, "input file: %w", err)
		}
		for _, other := range names {
			if f.Path == other || strings.HasPrefix(f.Path, other+"/") || strings.HasPrefix(other, f.Path+"/") {
				return api.Errorf(api.KindInvalid, "the given files %s and %s conflict", f.Path, other).WithHint("Rename one of them.")
			}
		}
		names = append(names, f.Path)
		total += len(f.Content)
	}
	if total > api.MaxInputBytes {
		return api.Errorf(api.KindInvalid, "the given files have %d bytes; the maximum is %d", total, api.MaxInputBytes).
			WithHint("For larger files, use a sandbox: hortus sandbox create, hortus sandbox cp.")
	}
	return nil
}
