package lesson

import (
	"fmt"
	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"strings"
	"time"
)

// Command is "hortus lesson".
type Command struct {
	Ls   lsCmd   `cmd:"" help:"List lessons, the newest first."`
	Show showCmd `cmd:"" help:"Show a lesson: the failure, and what fixed it."`
	Rm   rmCmd   `cmd:"" help:"Remove lessons, so that no task is given them any more."`
}

type lsCmd struct {
	Scope string `arg:"" optional:"" name:"scope" help:"URL of a repository, or language:NAME for programs (default: all)."`
}

// Run lists lessons.
func (c *lsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Lessons.List(ctx, c.Scope)
	if err != nil {
		return err
	}
	if len(list) == 0 && !a.Flags.JSON {
		a.Note("there is no lesson yet; a task that fails first and is verified in the end leaves one")
		return nil
	}
	return app.ShowList(a, list, "ID SCOPE FAILURE HELPED VECTOR LEARNED", func(l api.Lesson) []string {
		return []string{human.Sanitize(l.ID), human.Truncate(human.Sanitize(l.Scope), 40), human.Truncate(human.Sanitize(headline(l)), 60), helped(l), embedded(l), human.Duration(time.Since(l.LearnedAt)) + " ago"}
	})
}

// headline is the last line of a failure: most programs and test runners name their error there.
func headline(l api.Lesson) string {
	return l.Failure[strings.LastIndexByte(l.Failure, '\n')+1:]
}

// helped says in how many of the tasks that were given a lesson the work was verified.
func helped(l api.Lesson) string {
	if l.Offered == 0 {
		return "not needed yet"
	}
	return fmt.Sprintf("%d of %d", l.Helped, l.Offered)
}

// embedded names the model whose vector a lesson has.
func embedded(l api.Lesson) string {
	if l.Vector == "" {
		return "none"
	}
	return human.Sanitize(l.Vector)
}

type showCmd struct {
	ID string `arg:"" name:"id" complete:"lessons" help:"Identifier of the lesson, or its beginning."`
}

// Run shows a lesson.
func (c *showCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	l, err := cl.Lessons.Get(ctx, c.ID)
	if err != nil {
		return app.Missing(err, "hortus lesson ls")
	}
	if err := app.ShowOne(a, l, func(row func(name, value string)) {
		row("lesson", l.ID)
		row("scope", l.Scope)
		row("learned", l.LearnedAt.Format(time.RFC3339))
		row("taught by", fmt.Sprintf("%s, the last is %s", human.Count(l.Seen, "task"), l.Task))
		row("helped", helped(l))
		row("vector", embedded(l))
	}); err != nil || a.Flags.JSON {
		return err
	}
	_, err = fmt.Fprintf(a.Env.Stdout, "\nFailure:\n%s\n\nFix:\n%s\n", indent(l.Failure), indent(l.Fix))
	return err
}

// indent sets a text of several lines apart from ours.
func indent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = "  " + human.Sanitize(l)
	}
	return strings.Join(lines, "\n")
}

type rmCmd struct {
	IDs []string `arg:"" name:"id" complete:"lessons" help:"Identifiers of lessons, or their beginnings."`
}

// Run removes lessons.
func (c *rmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return app.Each(ctx, a, c.IDs, "hortus lesson ls", cl.Lessons.Remove, func(l api.Lesson) string {
		return fmt.Sprintf("%s is removed; no task is given it any more", l.ID)
	})
}
