package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/terminal"
	"hortus.dev/internal/repository/forge"
)

type taskStartCmd struct {
	Request  string   `arg:"" optional:"" help:"Request in plain language; - reads stdin. It may be left out with --issue."`
	Issue    string   `placeholder:"URL" help:"Page of the issue that the request is about, at GitHub, GitLab, Gitea or Forgejo. Without --repo, its repository is used. A merge request there closes it."`
	Repo     []string `sep:"none" complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"Repository: the name of a connected one (hortus repo ls), a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT (default: the checkout of the working directory). Repeatable up to 20 times: each repository then has a directory of the workspace with its name, or with DIR of DIR=PATH."`
	Verify   string   `placeholder:"CMD" help:"Shell command that verifies the work (default: the repository's own test command)."`
	Context  []string `sep:"none" complete:"files" placeholder:"FILE" help:"File with context for the request (maximum 64 KiB). Repeatable up to 8 times."`
	Document []string `sep:"none" complete:"documents" placeholder:"NAME" help:"Document for the request: the name of a stored one, or the path of a file in .hortus/context of the commit (hortus document ls --repo REPOSITORY). Repeatable; at most 8 with --context."`
	Strict   bool     `help:"Every failed test of the gate decides, also one that failed before the work, and none is run again."`
	Fresh    bool     `help:"Run the gate before the work, also if an earlier task ran it on this commit, and a setup that failed a short time ago."`
	Locks    bool     `name:"locks-may-change" help:"The request is about the packages of the repository: accept lock files that change without their manifests."`
	Mutant   string   `complete:"files" placeholder:"PATCH" help:"Patch that breaks the repository. The gate must fail with it, which proves that new tests detect the defect."`
	Author   string   `env:"HORTUS_AUTHOR" placeholder:"NAME <EMAIL>" help:"Author of the commits (default: git's user.name and user.email)."`
	Record   string   `complete:"files" placeholder:"FILE" help:"File to record every model call in, without secrets, for --model replay:FILE."`
	Overlap  string   `placeholder:"POLICY" help:"If plans, other tasks or sessions change the same files: allow (default), which works at the same time and names them, wait until they end, or refuse, which fails."`
	Detach   bool     `short:"d" help:"Start the task, print its ID and return. hortus task watch ID follows it."`
	untilFlags
	DeliveryFlags
	BudgetFlags
	fileFlags
	setupFlags
	agentFlag
	bestFlags
	resultFlag
	workspaceFlag
	flags.Sandbox
}

// workspaceFlag names the workspace of the agent.
type workspaceFlag struct {
	Workspace string `complete:"workspaces" placeholder:"NAME|ID" help:"Workspace for the agent to work in. It is kept after the task; if there is none of this name, the task creates it. docs/workspaces.md."`
}

// setupFlags say how the repository is prepared.
type setupFlags struct {
	NoSetup     bool     `name:"no-setup" help:"Do not install what the repository needs; docs/dependencies.md."`
	SetupSecret []string `name:"setup-secret" sep:"none" complete:"secrets" placeholder:"[VAR=]NAME[@TIME]" help:"Secret that the setup of the repository may use. Those of --secret are for the agent and the gate. Repeatable; docs/secrets.md."`
	SetupEgress []string `name:"setup-egress" sep:"none" env:"HORTUS_SETUP_EGRESS" placeholder:"VALUE" help:"What the setup of the repository may connect to: the package registries of its lock files (default), none, or values of --egress. Repeatable; docs/egress.md."`
}

// untilFlags have new agents work until a command passes.
type untilFlags struct {
	Until  string `placeholder:"CMD" help:"Shell command that ends the work when it passes. New agents, each without a conversation, continue in the same files until then, until a budget is used up, or until there is no progress. It is the gate too, unless --verify is set."`
	Passes *int   `placeholder:"N" help:"Maximum number of agents that --until starts, one after the other (1 to 100, default 10)."`
}

// into sets what the flags say.
func (c *untilFlags) into(r *api.RepoTask, given func(flag string) bool) error {
	r.Until = strings.TrimSpace(c.Until)
	if c.Passes != nil {
		if r.Passes = *c.Passes; r.Passes < 1 || r.Passes > api.MaxPasses {
			return api.Errorf(api.KindInvalid, "--passes: %d is not between 1 and %d", r.Passes, api.MaxPasses)
		}
	}
	switch {
	case given("until") && r.Until == "":
		return api.Errorf(api.KindInvalid, "--until: the command is empty")
	case c.Passes != nil && r.Until == "":
		return api.Errorf(api.KindInvalid, "--passes has no effect without --until").WithHint("add --until CMD")
	case r.Until != "" && given("rounds"):
		return api.Errorf(api.KindInvalid, "--until and --rounds exclude each other: each pass is a new agent").WithHint("set --passes")
	case r.Until != "":
		r.Rounds = 0 // that of the environment is for tasks with rounds
	}
	return nil
}

// agentFlag names the model of an agent.
type agentFlag struct {
	Agent string     `env:"HORTUS_AGENT" complete:"agents" placeholder:"NAME" help:"Agent that does the work: hortus (default), or a program in the sandbox: opencode, opencode-server, claude, codex, copilot, gemini or qwen. docs/agents.md."`
	Model ModelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model of the agent: anthropic, openai, anthropic:MODEL, openai:MODEL, ollama:MODEL, replay:FILE (a recording), or offline (built in, no network, small repairs only). NAME,large=NAME adds a model to switch to when the agent makes no progress."`
	Small string     `name:"small-model" env:"HORTUS_SMALL_MODEL" placeholder:"NAME" help:"Model that summarizes a long history and answers questions about the repository (research) for the agent (default: the agent's model)."`
}

// BudgetFlags bound the work of an agent, all rounds together.
type BudgetFlags struct {
	Rounds      *int           `env:"HORTUS_ROUNDS" placeholder:"N" help:"Maximum repair rounds after a failed gate (0 to 10, default 2)."`
	Steps       *int           `env:"HORTUS_STEPS" placeholder:"N" help:"Maximum number of model calls (default 100)."`
	Tokens      *int64         `env:"HORTUS_TOKENS" placeholder:"N" help:"Maximum number of tokens, input and output together (default 5000000)."`
	Cost        *float64       `env:"HORTUS_COST" placeholder:"USD" help:"Maximum cost of the model calls."`
	GateTimeout flags.Duration `name:"gate-timeout" placeholder:"10m" help:"Timeout of one run of the gate (default 10m)."`
	Wall        flags.Duration `env:"HORTUS_WALL" placeholder:"30m" help:"Timeout of the whole task (default 30m)."`
}

// Bounds of the files that belong to a request.
const (
	maxContextFile = 64 << 10
	maxMutant      = 256 << 10
)

// Run has an agent work on a repository.
func (c *taskStartCmd) Run(ctx app.Context, a *app.App) error {
	if c.Model.all == "" && (c.Agent == "" || c.Agent == "hortus") {
		name, err := ModelAtHand(ctx, a)
		if err != nil {
			return err
		}
		c.Model.all = name
	}
	req, err := c.request(ctx, a)
	if err != nil {
		return err
	}
	// What is of this machine alone is pushed nowhere and fetched from nowhere.
	a.NeedForges = req.Repo.Push || req.Repo.Issue != "" || slices.ContainsFunc(req.Repo.All(), func(r api.TaskRepository) bool { return !filepath.IsAbs(r.URL) })
	pull, err := image.Wanted(a, &c.Sandbox, &req.Sandbox)
	if err != nil {
		return err
	}
	return start(ctx, a, req, pull, &outDir{}, c.Detach)
}

// request turns the command line into the api's words.
func (c *taskStartCmd) request(ctx context.Context, a *app.App) (api.CreateTask, error) {
	req := api.CreateTask{Repo: &api.RepoTask{
		Verify: strings.TrimSpace(c.Verify), Push: c.Push || c.MR, MergeRequest: c.MR, Draft: c.Draft, Target: c.Target,
	}}
	var err error
	if err = c.ofIssue(req.Repo); err != nil {
		return req, err
	}
	if req.Request, err = c.sentence(a); err != nil {
		return req, err
	}
	if c.Verify != "" && req.Repo.Verify == "" {
		return req, api.Errorf(api.KindInvalid, "--verify: the command is empty").WithHint("omit it to use the repository's own")
	}
	if err := c.Delivers(); err != nil {
		return req, err
	}
	if req.Model, req.Models, err = c.agentFlag.models(); err != nil {
		return req, err
	}
	if req.Schema, err = c.resultFlag.read(); err != nil {
		return req, err
	}
	if req.Repo.Budget, req.Repo.Rounds, err = c.Limits(); err != nil {
		return req, err
	}
	if err := c.untilFlags.into(req.Repo, a.Given); err != nil {
		return req, err
	}
	if req.Repo.FilePolicy, err = c.fileFlags.policy(); err != nil {
		return req, err
	}
	req.RunTimeoutMS = c.GateTimeout.Milliseconds()
	if req.Sandbox, err = c.Sandbox.CreateRequest(); err != nil {
		return req, err
	}
	if req.Repo.Best, err = c.bestFlags.request(); err != nil {
		return req, err
	}
	if req.Repo.Overlap = api.Overlap(c.Overlap); req.Repo.Overlap.Check() != nil {
		return req, api.Errorf(api.KindInvalid, "--overlap: %w", req.Repo.Overlap.Check())
	}
	req.Repo.LocksMayChange = c.Locks
	req.Repo.Fresh, req.Repo.Strict, req.Repo.NoSetup, req.Repo.Workspace, req.Repo.Agent = c.Fresh, c.Strict, c.NoSetup, c.Workspace, c.Agent
	if req.SetupEgress, err = flags.Policy("--setup-egress", c.SetupEgress); err != nil {
		return req, err
	}
	if req.SetupSecrets, err = flags.Secrets("--setup-secret", c.SetupSecret); err != nil {
		return req, err
	}
	if c.Record != "" {
		if req.Record, err = filepath.Abs(c.Record); err != nil {
			return req, api.Errorf(api.KindInvalid, "--record: %w", err)
		}
	}
	if err := c.files(a, req.Repo); err != nil {
		return req, err
	}
	return req, c.source(ctx, a, req.Repo)
}

// ofIssue takes from the address of an issue what was left out.
func (c *taskStartCmd) ofIssue(into *api.RepoTask) error {
	if c.Issue == "" {
		return nil
	}
	repository, n, err := forge.SplitIssue(c.Issue)
	if err != nil {
		return api.Errorf(api.KindInvalid, "--issue: %w", err).WithHint("%s", api.HintOf(err))
	}
	into.Issue = c.Issue
	if len(c.Repo) == 0 {
		c.Repo = []string{repository + ".git"}
	}
	if c.Request == "" {
		_, name, _ := strings.Cut(repository, "://")
		c.Request = fmt.Sprintf("Resolve issue %d of %s.", n, name)
	}
	return nil
}

// sentence reads the request.
func (c *taskStartCmd) sentence(a *app.App) (string, error) {
	text, err := a.ReadArgument(c.Request)
	if err != nil {
		return "", err
	}
	if text == "" {
		return "", api.Errorf(api.KindInvalid, "the request is empty").WithHint(`put it into quotes: hortus task --repo . "Fix the failing test"; or name an issue: hortus task --issue URL`)
	}
	// A command that was mistyped must not set an agent to work.
	if len(c.Repo) == 0 && !strings.ContainsAny(text, " \n\t") {
		for _, name := range []string{"start", "list", "ls", "watch", "show", "diff", "apply", "deliver", "reply", "replay", "cancel", "logs"} {
			if near(text, name) {
				return "", api.Errorf(api.KindInvalid, "unknown command hortus task %.40q", text).
					WithHint("did you mean hortus task %s? If it is a request: hortus task --repo . %q", strings.Replace(name, "list", "ls", 1), text)
			}
		}
		if api.TaskID(text).Valid() {
			return "", api.Errorf(api.KindInvalid, "unknown command hortus task %.40q", text).WithHint("hortus task show %s", text)
		}
	}
	return text, nil
}

// near reports whether a word is a name but for one letter, or two that changed
// places.
func near(word, name string) bool {
	word = strings.ToLower(word)
	if word == name {
		return true
	}
	if len(word) == len(name) {
		var at []int
		for i := range word {
			if word[i] != name[i] {
				at = append(at, i)
			}
		}
		return len(at) == 1 && len(name) > 2 ||
			len(at) == 2 && at[1] == at[0]+1 && word[at[0]] == name[at[1]] && word[at[1]] == name[at[0]]
	}
	long, short := word, name
	if len(long) < len(short) {
		long, short = short, long
	}
	for i := range long {
		if len(long) == len(short)+1 && long[:i]+long[i+1:] == short {
			return true
		}
	}
	return false
}

// DeliveryFlags say where verified work goes.
type DeliveryFlags struct {
	Push   bool   `help:"Push the branch when the work is verified."`
	MR     bool   `name:"mr" help:"Push the branch and open a merge request when the work is verified."`
	Draft  bool   `help:"Make the merge request a draft."`
	Target string `placeholder:"BRANCH" help:"Target branch of the merge request (default: the branch that the work started from, or the forge's default branch)."`
	Remote string `placeholder:"URL|NAME" help:"Remote to push to (default: the checkout's origin, or the URL of --repo)."`
}

// Delivers refuses flags that would do nothing.
func (c *DeliveryFlags) Delivers() error {
	for _, f := range []struct {
		given bool
		name  string
		needs bool
		hint  string
	}{
		{c.Draft, "--draft", c.MR, "add --mr"},
		{c.Target != "", "--target", c.MR, "add --mr"},
		{c.Remote != "", "--remote", c.MR || c.Push, "add --push, or --mr for a merge request too"},
	} {
		if f.given && !f.needs {
			return api.Errorf(api.KindInvalid, "%s has no effect without --push or --mr", f.name).WithHint("%s", f.hint)
		}
	}
	return nil
}

// Limits are what the flags say.
func (f *BudgetFlags) Limits() (out api.Budget, rounds int, err error) {
	// Zero means the default to the api.
	if f.Rounds != nil {
		if rounds = *f.Rounds; rounds < 0 || rounds > api.MaxRounds {
			return out, 0, api.Errorf(api.KindInvalid, "--rounds: %d is not between 0 and %d", rounds, api.MaxRounds)
		}
		if rounds == 0 {
			rounds = -1
		}
	}
	if f.Steps != nil {
		if out.Steps = *f.Steps; out.Steps < 1 || out.Steps > 1<<20 {
			return out, 0, api.Errorf(api.KindInvalid, "--steps: %d is not between 1 and %d", out.Steps, 1<<20)
		}
	}
	if f.Tokens != nil {
		if out.Tokens = *f.Tokens; out.Tokens < 1 {
			return out, 0, api.Errorf(api.KindInvalid, "--tokens: %d is not above 0", out.Tokens)
		}
	}
	if f.Cost != nil {
		if out.CostUSD = *f.Cost; !(out.CostUSD > 0) || out.CostUSD > 1e6 {
			return out, 0, api.Errorf(api.KindInvalid, "--cost: %v is not an amount of US dollars", *f.Cost).WithHint("for example --cost 0.50")
		}
	}
	out.WallMS = f.Wall.Milliseconds()
	return out, rounds, nil
}

// models are the model of the agent and those that it may use.
func (f agentFlag) models() (name string, by api.Models, err error) {
	if name, by.Large, err = f.Model.Agent(); err == nil && f.Small != "" {
		by.Small, err = absoluteRecording(f.Small)
	}
	return name, by, err
}

// Agent is the model of the agent of a repository, which plays no other role, and the one that it moves to.
func (m ModelNames) Agent() (name, large string, err error) {
	if m.by.Planner != "" || m.by.Coder != "" || m.by.Debugger != "" {
		return "", "", api.Errorf(api.KindInvalid, "--model: a task on a repository has only an agent, not a planner, coder or debugger").
			WithHint("use --model NAME, or --model NAME,large=NAME; --model overrides HORTUS_MODEL and task.model")
	}
	return m.all, m.by.Large, nil
}

// files reads what belongs to the request.
func (c *taskStartCmd) files(a *app.App, into *api.RepoTask) error {
	if n := len(c.Context) + len(c.Document); n > api.MaxTaskDocuments {
		return api.Errorf(api.KindInvalid, "--context and --document: %d documents; the maximum is %d", n, api.MaxTaskDocuments)
	}
	into.Documents = c.Document
	for _, name := range c.Context {
		text, err := readText(a, name, "--context", maxContextFile, c.Request == "-")
		if err != nil {
			return err
		}
		into.Context = append(into.Context, api.Document{Name: strings.ToValidUTF8(filepath.Base(name), "?"), Text: text})
	}
	if c.Mutant == "" {
		return nil
	}
	var err error
	into.Mutant, err = readText(a, c.Mutant, "--mutant", maxMutant, c.Request == "-")
	if err == nil && strings.TrimSpace(into.Mutant) == "" {
		err = api.Errorf(api.KindInvalid, "--mutant: %s is empty", c.Mutant)
	}
	return err
}

// readText reads a file of text, or stdin for "-" where nothing else has it.
func readText(a *app.App, name, flag string, most int, stdinTaken bool) (string, error) {
	if name == "-" && stdinTaken {
		return "", api.Errorf(api.KindInvalid, "%s: stdin is already used for the request", flag)
	}
	if name != "-" {
		if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
			return "", api.Errorf(api.KindInvalid, "%s: %s is not a file", flag, name)
		} else if err == nil && st.Size() > int64(most) {
			return "", tooLong(flag, name, most)
		}
	}
	b, err := a.ReadInput(name)
	switch {
	case err != nil:
		return "", api.Errorf(api.KindInvalid, "%s: %w", flag, err)
	case len(b) > most:
		return "", tooLong(flag, name, most)
	case !utf8.Valid(b) || strings.ContainsRune(string(b), 0):
		return "", api.Errorf(api.KindInvalid, "%s: %s is not UTF-8 text", flag, name)
	}
	return string(b), nil
}

func tooLong(flag, name string, most int) error {
	return api.Errorf(api.KindInvalid, "%s: %s has more than %s", flag, name, human.Size(int64(most))).
		WithHint("%s", fmt.Sprintf("give the part that matters; the agent reads files of the repository itself"))
}

type taskReplyCmd struct {
	ID             string         `arg:"" complete:"tasks" help:"ID of a task that ended with a question, or a unique prefix of it."`
	Reply          string         `arg:"" help:"Answer to the question; - reads stdin."`
	Attempts       *int           `placeholder:"N" help:"Maximum number of attempts of a program (1 to 10)."`
	Rounds         *int           `placeholder:"N" help:"Maximum repair rounds after a failed gate (0 to 10)."`
	Steps          *int           `placeholder:"N" help:"Maximum number of model calls."`
	Tokens         *int64         `placeholder:"N" help:"Maximum number of tokens, input and output together."`
	Cost           *float64       `placeholder:"USD" help:"Maximum cost of the model calls."`
	Wall           flags.Duration `placeholder:"30m" help:"Timeout of the whole task."`
	TestsMayChange bool           `help:"Accept changes to existing tests: the gate with the original tests no longer decides."`
	LocksMayChange bool           `help:"Accept lock files that change without their manifests."`
}

// Help returns what the first lines of help do not.
func (taskReplyCmd) Help() string {
	return "A new task continues the work: on a repository in the same workspace, for a program from the last attempt. " +
		"Budgets, rounds and attempts are counted from zero; their default limits are those of the first task."
}

// Run answers the question of a task and follows the task that continues it.
func (c *taskReplyCmd) Run(ctx app.Context, a *app.App) error {
	text, err := a.ReadArgument(c.Reply)
	if err != nil {
		return err
	}
	if text == "" {
		return api.Errorf(api.KindInvalid, "the reply is empty").WithHint(`hortus task reply %s "ANSWER"`, human.Sanitize(c.ID))
	}
	req := api.ReplyTask{Reply: text, TestsMayChange: c.TestsMayChange, LocksMayChange: c.LocksMayChange}
	limits := BudgetFlags{Rounds: c.Rounds, Steps: c.Steps, Tokens: c.Tokens, Cost: c.Cost, Wall: c.Wall}
	if req.Budget, req.Rounds, err = limits.Limits(); err != nil {
		return err
	}
	if c.Attempts != nil {
		if req.Attempts = *c.Attempts; req.Attempts < 1 || req.Attempts > api.MaxAttempts {
			return api.Errorf(api.KindInvalid, "--attempts: %d is not between 1 and %d", req.Attempts, api.MaxAttempts)
		}
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	old, err := find(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	// The daemon must have the models and tokens that are set here.
	a.NeedForges = old.Create.Repo != nil && (old.Create.Repo.Push || !filepath.IsAbs(old.Create.Repo.URL))
	m := old.Create.Models
	return startWith(ctx, a, []string{old.Create.Model, m.Planner, m.Coder, m.Debugger, m.Large, m.Small}, &outDir{}, false,
		func(ctx context.Context, cl *client.Client, _ *terminal.Interrupts) (api.Task, error) {
			return cl.Tasks.Reply(ctx, old.ID, req)
		})
}
