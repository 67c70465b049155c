package session

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/session"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task"
)

// Command is "hortus session".
type Command struct {
	Send    sendCmd    `cmd:"" help:"Say something to the agent of a session and follow its turn; the first message makes the session."`
	Ls      lsCmd      `cmd:"" help:"List sessions, newest first."`
	Show    showCmd    `cmd:"" help:"Show a session with its turns and checkpoints."`
	Cancel  cancelCmd  `cmd:"" help:"Cancel the turn that runs and wait for its receipt."`
	Restore restoreCmd `cmd:"" help:"Take a session back to the end of a turn: its files and its conversation."`
	Fork    forkCmd    `cmd:"" help:"Make another session from the end of a turn."`
	Close   closeCmd   `cmd:"" help:"Close sessions and remove their files and conversations."`
}

// Help returns what the first lines of help do not.
func (Command) Help() string {
	return `hortus session send KEY "Fix the failing test" --repo . begins a conversation with an agent; further messages continue it, ` +
		`with its files and all that was said. KEY is a name that you choose. docs/sessions.md.`
}

// one names a session.
type one struct {
	Key string `arg:"" name:"key" complete:"sessions" help:"Key of the session."`
}

type lsCmd struct {
	All   bool          `help:"Include closed sessions."`
	State []words.State `placeholder:"STATE" help:"Only sessions in this state: stored, running, warm, paused or closed. Can be repeated."`
}

// Run lists sessions.
func (c *lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Sessions.Match(ctx, c.All, c.State...)
	if err != nil {
		return err
	}
	return app.ShowList(a, list, "KEY STATE TURNS USED AGENT REPOSITORY", func(s words.Session) []string {
		return []string{human.Sanitize(s.Key), human.Sanitize(string(s.State)), strconv.Itoa(s.TurnCount), human.Duration(time.Since(s.UsedAt)),
			human.Sanitize(agentOf(s.Settings)), human.Truncate(repositoryOf(s.Settings), 60)}
	})
}

func agentOf(s words.Settings) string {
	name := s.Agent
	if name == "" {
		name = "hortus"
	}
	if s.Model != "" {
		name += "/" + s.Model
	}
	return name
}

func repositoryOf(s words.Settings) string {
	switch {
	case s.Repository == "":
		return "-"
	case s.Ref == "":
		return s.Repository
	}
	return s.Repository + "@" + s.Ref
}

type showCmd struct{ one }

// Run shows a session.
func (c *showCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Sessions.Get(ctx, c.Key)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	return show(a, s)
}

// show prints a session with its turns.
func show(a *app.App, s words.Session) error {
	w := a.Table()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, human.Sanitize(value))
		}
	}
	row("session", s.Key)
	row("state", string(s.State))
	row("sandbox", string(s.Sandbox))
	row("agent", agentOf(s.Settings))
	row("repository", s.Settings.Repository)
	row("commit", s.Commit)
	if d := s.Delivery; d != nil {
		row("branch", d.Branch)
		row("merge request", d.URL)
	}
	row("workspace", string(s.Workspace))
	row("created", s.CreatedAt.Format(time.RFC3339))
	row("expires", s.ExpiresAt.Format(time.RFC3339))
	if err := w.Flush(); err != nil || len(s.Turns) == 0 {
		return err
	}
	fmt.Fprintln(a.Env.Stdout)
	w = a.Table()
	fmt.Fprintln(w, "TURN\tSTATE\tCHECKPOINT\tTASK\tMESSAGE")
	for _, t := range s.Turns {
		check := "-"
		if t.Checkpoint {
			check = "yes"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", t.N, human.Sanitize(stateOf(t, s)), check, human.Sanitize(dash(string(t.Task))), human.Truncate(t.Text, 60))
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stateOf is where a turn stands, for people.
func stateOf(t words.Turn, s words.Session) string {
	state := string(t.State)
	if t.State == words.TurnDone {
		state = string(t.Outcome)
	}
	if t.Superseded {
		state += ", superseded"
	}
	if t.N == s.At {
		state += ", here"
	}
	return state
}

type cancelCmd struct {
	one
	Queued bool `help:"Remove the messages that wait, too." xor:"what"`
	Turn   int  `placeholder:"N" help:"Remove this message, which waits; the turn that runs continues." xor:"what"`
}

// Run cancels the turn that runs.
func (c *cancelCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Sessions.Cancel(ctx, c.Key, words.Cancel{Queued: c.Queued, Turn: c.Turn})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	if c.Turn != 0 {
		a.Note("turn %d: removed", c.Turn)
		return nil
	}
	for i := len(s.Turns) - 1; i >= 0; i-- {
		if t := s.Turns[i]; t.State == words.TurnDone {
			a.Note("turn %d: %s", t.N, t.Outcome)
			if r := t.Receipt; r != nil {
				a.Note("receipt: %d completed, %d skipped, %d processes left", len(r.Completed), len(r.Skipped), r.ProcessesLeft)
			}
			return nil
		}
	}
	a.Note("no turn of session %s has run", s.Key)
	return nil
}

type restoreCmd struct {
	one
	Turn int `arg:"" help:"Number of the turn."`
}

// Run takes a session back.
func (c *restoreCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Sessions.Restore(ctx, c.Key, words.Restore{Turn: c.Turn})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	n := 0
	for _, t := range s.Turns {
		if t.Superseded {
			n++
		}
	}
	a.Note("session %s is at the end of turn %d; superseded turns: %d", s.Key, s.At, n)
	return nil
}

type forkCmd struct {
	one
	New  string `arg:"" name:"newkey" help:"Key of the new session."`
	Turn int    `placeholder:"N" help:"Turn at whose end the new session begins (default: the last one with a checkpoint)."`
}

// Run forks a session and prints the key of the new one.
func (c *forkCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	s, err := cl.Sessions.Fork(ctx, c.Key, words.Fork{Key: c.New, Turn: c.Turn})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	a.Note("to continue it: hortus session send %s \"TEXT\"", s.Key)
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(s.Key))
	return err
}

type closeCmd struct {
	Keys []string `arg:"" name:"key" complete:"sessions" help:"Keys of the sessions."`
}

// Run closes sessions.
func (c *closeCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return app.Each(ctx, a, c.Keys, "hortus session ls", cl.Sessions.Close, func(s words.Session) string {
		return fmt.Sprintf("%s is closed", s.Key)
	})
}

// result prints the answer on stdout and how the turn ended on stderr.
func result(a *app.App, key string, t words.Turn) error {
	if a.Flags.JSON {
		if err := a.JSON(t); err != nil {
			return err
		}
		return exit(t)
	}
	for line := range strings.Lines(strings.TrimSpace(t.Answer)) {
		if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(strings.TrimRight(line, "\n"))); err != nil {
			return api.Errorf(api.KindInternal, "write the answer: %w", err)
		}
	}
	ended := fmt.Sprintf("turn %d: %s in %s", t.N, t.Outcome, human.Duration(t.EndedAt.Sub(t.StartedAt)))
	if t.Restored != "" {
		ended += fmt.Sprintf(", sandbox %s in %s", t.Restored, human.Milliseconds(t.RestoredMS))
	}
	a.Note("%s", ended)
	if t.Note != "" {
		a.Note("%s", t.Note)
	}
	if t.Error != nil {
		a.Note("error: %s", t.Error.Error())
		if hint := api.HintOf(t.Error); hint != "" {
			a.Note("next: %s", hint)
		}
	}
	if r := t.Receipt; r != nil {
		a.Note("receipt: %d completed, %d skipped, %d processes left", len(r.Completed), len(r.Skipped), r.ProcessesLeft)
	}
	if d := t.Delivery; d != nil && d.Error != nil {
		a.Note("not delivered: %s", d.Error.Error())
		a.Note("next: %s", cmp.Or(api.HintOf(d.Error), "hortus task deliver "+t.Task.Short()))
	} else if d != nil {
		a.Note("delivered: %s", cmp.Or(d.URL, d.Branch+" at "+d.Pushed))
	}
	if t.Changed {
		a.Note("files changed; to see the changes of the session: hortus task diff %s", t.Task.Short())
	}
	return exit(t)
}

// exit is 1 also if what was verified could not be delivered.
func exit(t words.Turn) error {
	if err := task.ExitOf(t.Outcome, t.Error); err != nil || t.Delivery == nil || t.Delivery.Error == nil {
		return err
	}
	return app.ExitCode(1)
}
