package document

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/task"
)

// Command is "hortus document".
type Command struct {
	Put     putCmd     `cmd:"" help:"Store a new version of a document."`
	Ls      lsCmd      `cmd:"" help:"List documents: all of the account, or what a task on a repository can have."`
	Show    showCmd    `cmd:"" help:"Print a document."`
	History historyCmd `cmd:"" help:"List the versions of a document, the newest first."`
	Rm      rmCmd      `cmd:"" help:"Remove documents with all their versions."`
}

// scope is what a document belongs to.
type scope struct {
	Repo string `complete:"repositories" placeholder:"NAME|PATH|URL" help:"Repository that the document belongs to (default: none, it belongs to the account)."`
}

// address returns the address of the repository, "" for the account.
func (s scope) address(ctx context.Context, a *app.App) (string, error) {
	if s.Repo == "" {
		return "", nil
	}
	r, err := task.Address(ctx, a, s.Repo)
	if err == nil && r.Ref != "" && strings.HasSuffix(s.Repo, "@"+r.Ref) {
		err = api.Errorf(api.KindInvalid, "--repo: a stored document belongs to a repository, not to %s", r.Ref).WithHint("omit @%s", r.Ref)
	}
	return r.URL, err
}

// where is the end of a command about a document of the scope.
func (s scope) where() string {
	if s.Repo == "" {
		return ""
	}
	return " --repo " + s.Repo
}

// open returns the address of the repository and the client.
func (s scope) open(ctx context.Context, a *app.App) (string, *client.Client, error) {
	repository, err := s.address(ctx, a)
	if err != nil {
		return "", nil, err
	}
	cl, err := a.Client(ctx)
	return repository, cl, err
}

type putCmd struct {
	Name string `arg:"" name:"name" complete:"documents" help:"Name: lower-case letters, digits, \".\", \"_\" and \"-\"."`
	File string `arg:"" optional:"" name:"file" default:"-" complete:"files" help:"File with the text (maximum 32 KiB); - reads stdin (default)."`
	scope
	Title     string `placeholder:"TEXT" help:"Title (default: the first heading of the text, \"# TITLE\", or the name)."`
	IfVersion *int   `name:"if-version" placeholder:"N" help:"Replace version N only, 0 for a new document. If another version is stored, nothing is written."`
}

// Run stores a document.
func (c *putCmd) Run(ctx app.Context, a *app.App) error {
	if f, ok := a.Env.Stdin.(*os.File); c.File == "-" && ok && term.IsTerminal(int(f.Fd())) {
		a.Note("hortus: enter the text of the document, then press Ctrl-D")
	}
	text, err := a.ReadInput(c.File)
	if err != nil {
		return err
	}
	repository, cl, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	d, err := cl.Documents.Put(ctx, c.Name, api.PutDocument{Repository: repository, Title: c.Title, Text: string(text), IfVersion: c.IfVersion})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(d)
	}
	a.Note("%s is stored as version %d: %s (%s)", d.Name, d.Version, d.Title, human.Size(int64(d.Bytes)))
	if d.Version == 1 {
		a.Note("  use it: hortus task --repo %s --document %s \"...\"", placeholder(c.Repo), d.Name)
	}
	return nil
}

func placeholder(repo string) string {
	if repo == "" {
		return "."
	}
	return repo
}

type lsCmd struct {
	Repo string `complete:"repositories" placeholder:"NAME|PATH|URL[@REF]" help:"List what a task on this repository can have: documents of the account and of the repository, and files in .hortus/context of the commit."`
}

// entry is a stored document or a file of a commit.
type entry struct {
	Stored *api.StoredDocument `json:"stored,omitempty"`
	File   *api.ContextFile    `json:"file,omitempty"`
}

// Run lists documents.
func (c *lsCmd) Run(ctx app.Context, a *app.App) error {
	var r api.TaskRepository
	if c.Repo != "" {
		var err error
		if r, err = task.Address(ctx, a, c.Repo); err != nil {
			return err
		}
		a.NeedForges = !filepath.IsAbs(r.URL)
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	stored, err := cl.Documents.List(ctx, r.URL)
	if err != nil {
		return err
	}
	all := []entry{}
	for i := range stored {
		all = append(all, entry{Stored: &stored[i]})
	}
	if c.Repo != "" {
		files, err := cl.Documents.Files(ctx, r.URL, r.Ref)
		if api.KindOf(err) == api.KindDenied {
			a.Note("hortus: files of the repository are not listed: %s", err)
		} else if err != nil {
			return err
		}
		for i := range files {
			all = append(all, entry{File: &files[i]})
		}
	}
	if len(all) == 0 && !a.Flags.JSON {
		a.Note("there is no document; store one: hortus document put NAME FILE, or commit .hortus/context/NAME.md")
		return nil
	}
	return app.ShowList(a, all, "NAME VERSION FROM SIZE WRITTEN TITLE", entry.row)
}

func (e entry) row() []string {
	if f := e.File; f != nil {
		title := f.Title
		if f.Unusable != "" {
			title = "(cannot be used: " + f.Unusable + ")"
		}
		return []string{human.Sanitize(f.Path), "-", fmt.Sprintf("commit %.12s", human.Sanitize(f.Commit)), human.Size(f.Bytes), "-", human.Sanitize(title)}
	}
	d := e.Stored
	from := "account"
	if d.Repository != "" {
		from = human.Truncate(human.Sanitize(d.Repository), 60)
	}
	return []string{human.Sanitize(d.Name), fmt.Sprint(d.Version), from, human.Size(int64(d.Bytes)), written(*d), human.Sanitize(d.Title)}
}

func written(d api.StoredDocument) string { return human.Duration(time.Since(d.WrittenAt)) + " ago" }

type one struct {
	Name string `arg:"" name:"name" complete:"documents" help:"Name of the document."`
	scope
}

type showCmd struct {
	Name string `arg:"" name:"name" complete:"documents" help:"Name of the document, optionally with @VERSION (default: the current version)."`
	scope
}

// Run prints the text on stdout. A terminal gets it without what it would act on.
func (c *showCmd) Run(ctx app.Context, a *app.App) error {
	name, at, versioned := strings.Cut(c.Name, "@")
	version := 0
	if versioned {
		var err error
		if version, err = strconv.Atoi(at); err != nil || version < 1 {
			return api.Errorf(api.KindInvalid, "%.20q is not the version of a document", at).WithHint("list them: hortus document history %.64s%s", human.Sanitize(name), c.where())
		}
	}
	repository, cl, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	d, err := cl.Documents.Get(ctx, repository, name, version)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(d)
	}
	a.Note("%s, version %d, written %s by %s: %s", d.Name, d.Version, written(d), author(d), d.Title)
	text := d.Text
	if f, ok := a.Env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		text = printable(text)
	}
	if _, err := io.WriteString(a.Env.Stdout, text); err != nil {
		return api.Errorf(api.KindInternal, "write the document: %w", err)
	}
	return nil
}

// printable is a text of several lines for a terminal.
func printable(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = human.SanitizeTo(strings.TrimSuffix(l, "\r"), api.MaxDocument, "    ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func author(d api.StoredDocument) string {
	if d.Key == "" {
		return "the operator"
	}
	return "key " + string(d.Key)
}

type historyCmd struct{ one }

// Run lists versions.
func (c *historyCmd) Run(ctx app.Context, a *app.App) error {
	repository, cl, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	all, err := cl.Documents.Versions(ctx, repository, c.Name)
	if err != nil {
		return err
	}
	return app.ShowList(a, all, "VERSION SIZE WRITTEN BY TITLE", func(d api.StoredDocument) []string {
		return []string{fmt.Sprint(d.Version), human.Size(int64(d.Bytes)), written(d), human.Sanitize(author(d)), human.Sanitize(d.Title)}
	})
}

type rmCmd struct {
	Names []string `arg:"" name:"name" complete:"documents" help:"Names of documents."`
	scope
}

// Run removes documents.
func (c *rmCmd) Run(ctx app.Context, a *app.App) error {
	repository, cl, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	remove := func(ctx context.Context, name string) (api.StoredDocument, error) {
		return cl.Documents.Remove(ctx, repository, name)
	}
	return app.Each(ctx, a, c.Names, "hortus document ls"+c.where(), remove, func(d api.StoredDocument) string {
		return fmt.Sprintf("%s is removed with all versions; tasks that named it keep its text", d.Name)
	})
}
