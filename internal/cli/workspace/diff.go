package workspace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type diffCmd struct {
	one
	Stat bool `help:"List the changed files only."`
}

// Run prints a patch of texts, or the list of changes. What the patch lacks goes to stderr.
func (c *diffCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	id, err := c.find(ctx, cl)
	if err != nil {
		return err
	}
	d, err := cl.Workspaces.Diff(ctx, id, !c.Stat)
	if err != nil {
		return app.Missing(err, "hortus workspace ls")
	}
	if a.Flags.JSON {
		return a.JSON(d)
	}
	if c.Stat {
		err = list(a, d)
	} else {
		err = patch(a, d)
	}
	if err != nil {
		return err
	}
	refused(a, d.Refused, len(d.Refused))
	if len(d.Changes) == 0 && d.Complete {
		a.Note("no changes")
		return nil
	}
	a.Note("%s, %d added, %d modified, %d removed, %s", plural(int64(len(d.Changes)), "change", "changes"), d.Added, d.Modified, d.Removed, human.Size(d.Bytes))
	if !d.Complete {
		return api.Errorf(api.KindExhausted, "the list is incomplete: a limit was reached").WithHint("export the workspace: hortus workspace export %s", c.ID)
	}
	return nil
}

// list prints one line for each change.
func list(a *app.App, d api.WorkspaceDiff) error {
	t := a.Table()
	for _, c := range d.Changes {
		size := human.Size(c.Size)
		switch c.Kind {
		case api.ChangeRemoved:
			size = "-" + human.Size(c.OldSize)
		case api.ChangeModified:
			size = human.Size(c.OldSize) + " to " + size
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", human.Sanitize(string(c.Kind)), human.Sanitize(c.Path), size)
	}
	return t.Flush()
}

// maxRefused is the maximum number of lines about what is not shown.
const maxRefused = 20

// refused lists what is left out of an answer that counts n such entries.
func refused(a *app.App, all []api.RefusedChange, n int) {
	for i, r := range all {
		if i == maxRefused {
			break
		}
		a.Note("left out: %s: %s", r.Path, r.Why)
	}
	if more := n - min(len(all), maxRefused); more > 0 {
		a.Note("left out: %s more", plural(int64(more), "entry", "entries"))
	}
}

// patch prints the texts as a patch that git can apply.
func patch(a *app.App, d api.WorkspaceDiff) error {
	out := io.Writer(a.Env.Stdout)
	terminal := false
	if f, ok := out.(*os.File); ok {
		terminal = term.IsTerminal(int(f.Fd()))
	}
	w := bufio.NewWriter(out)
	for _, c := range d.Changes {
		text := header(c) + c.Text
		if c.NoText != "" {
			a.Note("not in the patch: %s: %s", c.Path, c.NoText)
			continue
		}
		if !terminal {
			w.WriteString(text)
			continue
		}
		for line := range strings.Lines(text) {
			w.WriteString(human.SanitizeTo(strings.TrimSuffix(line, "\n"), 4000, "\t") + "\n")
		}
	}
	return w.Flush()
}

// modes are those of git.
func mode(m string) string {
	switch m {
	case "executable":
		return "100755"
	case "symlink":
		return "120000"
	}
	return "100644"
}

func header(c api.WorkspaceChange) string {
	from, to := quote("a/"+c.Path), quote("b/"+c.Path)
	text := fmt.Sprintf("diff --git %s %s\n", from, to)
	switch c.Kind {
	case api.ChangeAdded:
		text += "new file mode " + mode(c.Mode) + "\n"
		from = "/dev/null"
	case api.ChangeRemoved:
		text += "deleted file mode 100644\n"
		to = "/dev/null"
	}
	if c.Text == "" {
		return text
	}
	return text + "--- " + ended(from) + "\n+++ " + ended(to) + "\n"
}

// ended marks the end of a path with spaces, as git does.
func ended(p string) string {
	if strings.Contains(p, " ") {
		return p + "\t"
	}
	return p
}

// quote writes a path as git does.
func quote(p string) string {
	if !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
