package session

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/terminal"
)

type sendCmd struct {
	one
	Text      string `arg:"" help:"Message in plain language; - reads stdin."`
	Interrupt bool   `help:"Cancel the turn that runs, keep what it has done, and say this next (default: wait for it)."`
	Detach    bool   `short:"d" help:"Say it, print the number of the turn and return."`
	makeFlags
}

// makeFlags make a session; they cannot be used with one that exists.
type makeFlags struct {
	Repo   string          `complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"Repository of a new session: the name of a connected one, a directory or a URL, optionally with @BRANCH, @TAG or @COMMIT (default: an empty workspace)."`
	Verify string          `placeholder:"CMD" help:"Shell command that verifies changes (default: the repository's own test command, if it has one)."`
	Author string          `env:"HORTUS_AUTHOR" placeholder:"NAME <EMAIL>" help:"Author of the commits (default: git's user.name and user.email)."`
	Agent  string          `env:"HORTUS_AGENT" complete:"agents" placeholder:"NAME" help:"Agent: hortus (default), or a program in the sandbox: opencode, opencode-server, claude, codex, copilot, gemini or qwen. docs/agents.md."`
	Model  task.ModelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model of the agent, as for hortus task."`
	task.BudgetFlags
	task.DeliveryFlags
	NoSetup  bool           `name:"no-setup" help:"Do not install what the repository needs; docs/dependencies.md."`
	Warm     flags.Duration `placeholder:"5m" help:"How long the sandbox stays after a turn, with what it runs (default 5m, maximum 4h)."`
	NoWarm   bool           `name:"no-warm" help:"End the sandbox after each turn."`
	Paused   flags.Duration `placeholder:"10m" help:"How long it is paused in memory after that, if it is a gVisor sandbox (default 10m, maximum 4h)."`
	Expires  flags.Span     `placeholder:"30d" help:"Time without a message after which the session is closed (default 30d)."`
	Template string         `env:"HORTUS_TEMPLATE" complete:"templates" placeholder:"NAME" help:"Template of the sandbox: host (this machine's own tools), the name of a template, or the ID of an image."`
	flags.Backend
	flags.Bounds
	Egress []string `sep:"none" env:"HORTUS_EGRESS" placeholder:"VALUE" help:"What the sandbox may connect to; docs/egress.md. Repeatable."`
	Secret []string `sep:"none" complete:"secrets" placeholder:"[VAR=]NAME[@TIME]" help:"Secret that the sandbox may use and never sees; docs/secrets.md. Repeatable."`
	Header []string `sep:"none" placeholder:"HOST NAME: VALUE" help:"Header of the sandbox's HTTPS requests to HOST; docs/secrets.md. Repeatable."`
}

// Help returns what the first lines of help do not.
func (sendCmd) Help() string {
	return "If there is no session of that key, the message makes one, with the settings of the flags. The answer is printed on stdout. " +
		"Exit code 0: answered or verified; 1: a person has to decide; 5: not known, since no daemon served the command; 130: cancelled. Ctrl-C cancels the turn."
}

// settings are what a new session is made with.
func (c *makeFlags) settings(ctx context.Context, a *app.App) (set words.Settings, err error) {
	if set.Model, set.LargeModel, err = c.Model.Agent(); err != nil {
		return set, err
	}
	set.Agent, set.Verify, set.NoSetup = c.Agent, strings.TrimSpace(c.Verify), c.NoSetup
	if set.Budget, set.Rounds, err = c.BudgetFlags.Limits(); err != nil {
		return set, err
	}
	set.GateTimeoutMS = c.GateTimeout.Milliseconds()
	set.WarmMS, set.PausedMS, set.TTLMS = c.Warm.Milliseconds(), c.Paused.Milliseconds(), time.Duration(c.Expires).Milliseconds()
	if c.NoWarm {
		if set.WarmMS != 0 || set.PausedMS != 0 {
			return set, api.Errorf(api.KindInvalid, "--no-warm cannot be used with --warm and --paused")
		}
		set.WarmMS, set.PausedMS = -1, -1
	}
	sandbox := &set.Sandbox
	sandbox.Isolation, sandbox.Template = c.Isolation, c.Template
	if sandbox.Limits, err = c.Bounds.Limits(); err != nil {
		return set, err
	}
	if sandbox.Egress, err = flags.Policy("--egress", c.Egress); err != nil {
		return set, err
	}
	if sandbox.Secrets, err = flags.Secrets("--secret", c.Secret); err != nil {
		return set, err
	}
	if sandbox.Headers, err = flags.Headers("--header", c.Header); err != nil {
		return set, err
	}
	if err := c.DeliveryFlags.Delivers(); err != nil {
		return set, err
	}
	set.Push, set.MergeRequest, set.Draft, set.Target = c.Push || c.MR, c.MR, c.Draft, c.DeliveryFlags.Target
	if c.Repo != "" {
		r, who, err := task.FindRepository(ctx, a, c.Repo, c.Author, c.DeliveryFlags)
		if err != nil {
			return set, err
		}
		set.Repository, set.Ref, set.Author, set.Remote = r.URL, r.Ref, who, r.Remote
	}
	return set, set.Check()
}

// told returns what a flag says of settings; nil for a flag that does not make a session.
func told(flag string, s words.Settings) any {
	switch flag {
	case "repo":
		return [...]string{s.Repository, s.Ref}
	case "verify":
		return s.Verify
	case "author":
		return s.Author
	case "agent":
		return s.Agent
	case "model":
		return [...]string{s.Model, s.LargeModel}
	case "rounds":
		return s.Rounds
	case "steps", "tokens", "cost", "wall":
		return s.Budget
	case "gate-timeout":
		return s.GateTimeoutMS
	case "no-setup":
		return s.NoSetup
	case "push", "mr":
		return [...]bool{s.Push, s.MergeRequest}
	case "draft":
		return s.Draft
	case "target":
		return s.Target
	case "remote":
		return s.Remote
	case "warm", "no-warm", "paused":
		return [...]int64{s.WarmMS, s.PausedMS}
	case "expires":
		return s.TTLMS
	case "template":
		return s.Sandbox.Template
	case "isolation":
		return s.Sandbox.Isolation
	case "memory", "cpus", "cpu-time", "pids", "disk", "output-limit":
		return s.Sandbox.Limits
	case "egress":
		return s.Sandbox.Egress
	case "secret":
		return s.Sandbox.Secrets
	case "header":
		return s.Sandbox.Headers
	}
	return nil
}

// unchanged refuses flags of the command line that say something else than the session has.
func (c *sendCmd) unchanged(ctx context.Context, a *app.App, have words.Settings) error {
	var given []string
	for _, p := range a.Parsed.Path {
		if p.Flag != nil && told(p.Flag.Name, have) != nil {
			given = append(given, p.Flag.Name)
		}
	}
	if len(given) == 0 {
		return nil
	}
	set, err := c.settings(ctx, a)
	if err != nil {
		return err
	}
	for _, name := range given {
		if !reflect.DeepEqual(told(name, set), told(name, have)) {
			return api.Errorf(api.KindInvalid, "session %s exists and has another --%s; its settings do not change", c.Key, name).
				WithHint("omit it, or use another key")
		}
	}
	return nil
}

// Run says something and follows the turn.
func (c *sendCmd) Run(ctx app.Context, a *app.App) error {
	text, err := a.ReadArgument(c.Text)
	if err != nil {
		return err
	}
	m := words.Message{Text: text}
	if c.Interrupt {
		m.Mode = words.Interrupt
	}
	if err := m.Check(); err != nil {
		return err
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	have, err := cl.Sessions.Get(ctx, c.Key)
	set := have.Settings
	switch {
	case api.KindOf(err) == api.KindNotFound:
		a.Disconnect()
		if set, err = c.settings(ctx, a); err != nil {
			return err
		}
		if set.Model == "" && (set.Agent == "" || set.Agent == "hortus") {
			if set.Model, err = task.ModelAtHand(ctx, a); err != nil {
				return err
			}
		}
		m.Create = &set
	case err != nil:
		return err
	default:
		a.Disconnect()
		if err := c.unchanged(ctx, a, set); err != nil {
			return err
		}
	}
	a.Disconnect() // the daemon must have the keys of the models, and of the forges
	a.NeedForges = set.Push || set.Repository != "" && !filepath.IsAbs(set.Repository)
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	if cl, err = task.Client(ctx, a, set.Model, set.LargeModel); err != nil {
		return err
	}
	turn, err := cl.Sessions.Send(ctx, c.Key, m)
	if err != nil {
		return err
	}
	if c.Detach {
		if a.Flags.JSON {
			return a.JSON(turn)
		}
		a.Note("turn %d of session %s runs in the background. To see it: hortus session show %s. To cancel it: hortus session cancel %[2]s", turn.N, c.Key, c.Key)
		return nil
	}
	if turn, err = follow(ctx, a, cl, c.Key, turn, stop); err != nil {
		return err
	}
	if turn.State == words.TurnRemoved {
		a.Note("the message was removed before it was said")
		return app.ExitCode(api.KindCanceled.ExitCode())
	}
	return result(a, c.Key, turn)
}

// follow shows a turn from its begin to its end.
func follow(ctx context.Context, a *app.App, cl *client.Client, key string, turn words.Turn, stop *terminal.Interrupts) (words.Turn, error) {
	began := false
	for e, err := range cl.Sessions.Events(a.Patient(ctx, cl, func(text string) { a.Note("%s", text) }), key, 0) {
		if err != nil {
			return turn, app.Unfollowed(err, "hortus session show "+key)
		}
		var t words.Turn
		switch e.Type {
		case words.EventTurn, words.EventAnswer, words.EventRemoved:
			if json.Unmarshal(e.Data, &t) != nil || t.N != turn.N {
				continue
			}
		case words.EventClosed:
			return turn, api.Errorf(api.KindConflict, "session %s was closed", key)
		default:
			continue
		}
		if e.Type != words.EventTurn {
			return t, nil
		}
		if began {
			continue
		}
		began = true
		p := view.NewProgress(a.Env, a.Flags.Quiet, t.Task)
		_, err := task.Follow(ctx, a, cl, t.Task, p, stop)
		p.Close()
		if p.Left {
			return t, app.Left(err, fmt.Sprintf("turn %d of session %s", turn.N, key), "hortus session show "+key)
		}
		if err != nil && api.KindOf(err) != api.KindNotFound { // the task never began
			return t, err
		}
	}
	return turn, api.Errorf(api.KindUnavailable, "the events of session %s ended", human.Sanitize(key))
}
