package task

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/checkout"
)

// person is who runs this command, as their git knows them.
func person(a *app.App) checkout.User { return checkout.User{Environ: a.Env.Environ} }

// source finds the repositories, who the person is, and where a delivery goes.
func (c *taskStartCmd) source(ctx context.Context, a *app.App, into *api.RepoTask) error {
	texts := c.Repo
	if len(texts) == 0 {
		texts = []string{""}
	}
	if len(texts) > api.MaxTaskRepositories {
		return api.Errorf(api.KindInvalid, "--repo: %d repositories; the maximum is %d", len(texts), api.MaxTaskRepositories)
	}
	several := len(texts) > 1
	if several && c.Remote != "" {
		return api.Errorf(api.KindInvalid, "--remote cannot be used with several repositories").WithHint("each is pushed to the origin of its checkout, or to its URL")
	}
	g := person(a)
	var all []api.TaskRepository
	var trees []checkout.Info
	for _, text := range texts {
		dir := ""
		if several {
			dir, text = inDirectory(text)
		}
		r, tree, err := c.repository(ctx, a, g, text)
		if err != nil {
			return err
		}
		if r.Name = cmp.Or(dir, directory(r.URL)); several {
			if err := distinct(all, r); err != nil {
				return err
			}
		} else {
			r.Name = ""
		}
		all, trees = append(all, r), append(trees, tree)
	}
	var err error
	if into.Author, err = c.author(ctx, a, g, trees[0].Root); err != nil {
		return err
	}
	for i := range all {
		if !into.Push {
			break
		}
		if all[i].Remote, err = c.remote(ctx, a, g, trees[i]); err != nil {
			return err
		}
	}
	into.Name, into.URL, into.Ref, into.Remote, into.Also = all[0].Name, all[0].URL, all[0].Ref, all[0].Remote, all[1:]
	return nil
}

// inDirectory splits DIR=REPOSITORY. A path with an equals sign is one.
func inDirectory(text string) (dir, rest string) {
	dir, rest, ok := strings.Cut(text, "=")
	if !ok || !api.ValidRepositoryName(dir) || rest == "" || exists(text) {
		return "", text
	}
	return dir, rest
}

// directory is the name of a repository's directory as it follows from its address.
func directory(address string) string {
	name := strings.Map(func(r rune) rune {
		if api.ValidRepositoryName("a" + string(r)) {
			return r
		}
		return '-'
	}, strings.ToLower(view.RepoName(address)))
	name = strings.TrimLeft(name, "._-")
	return name[:min(len(name), 63)]
}

// distinct refuses a repository whose directory another one has.
func distinct(all []api.TaskRepository, r api.TaskRepository) error {
	if !api.ValidRepositoryName(r.Name) {
		return api.Errorf(api.KindInvalid, "--repo: no directory follows from %s", git.DisplayAddress(r.URL)).WithHint("set one: --repo DIR=%s", git.DisplayAddress(r.URL))
	}
	for _, o := range all {
		if o.Name == r.Name {
			return api.Errorf(api.KindInvalid, "--repo: %s and %s would have the same directory %s", git.DisplayAddress(o.URL), git.DisplayAddress(r.URL), r.Name).
				WithHint("set another one: --repo DIR=%s", git.DisplayAddress(r.URL))
		}
	}
	return nil
}

// repository finds one repository, and its checkout if it is one of this machine, and notes what of that is used.
func (c *taskStartCmd) repository(ctx context.Context, a *app.App, g checkout.User, text string) (r api.TaskRepository, tree checkout.Info, err error) {
	if r, tree, err = locate(ctx, a, g, text); err == nil && tree.Root != "" {
		err = c.local(ctx, a, g, tree, &r)
	}
	return r, tree, err
}

// locate finds what a person names: an address, and its checkout if it is one of this machine.
func locate(ctx context.Context, a *app.App, g checkout.User, text string) (r api.TaskRepository, tree checkout.Info, err error) {
	address, ref, named, err := connected(ctx, a, text)
	if err != nil {
		return r, tree, err
	}
	if !named {
		if address, ref, err = git.ParseSource(cmp.Or(text, ".")); err != nil {
			return r, tree, err
		}
	}
	r.URL, r.Ref = address, ref
	if !filepath.IsAbs(address) {
		return r, tree, nil
	}
	if tree, err = g.Toplevel(ctx, address); err != nil {
		if text == "" && api.KindOf(err) == api.KindNotFound {
			return r, tree, api.Errorf(api.KindInvalid, "this directory is not in a git checkout").
				WithHint(`set the repository: hortus task --repo PATH|URL "..."; for a program without a repository: hortus run "..."`)
		}
		if api.KindOf(err) == api.KindNotFound {
			return r, tree, api.Errorf(api.KindInvalid, "--repo: %s", err).WithHint("run git init, or use another directory or a URL")
		}
	}
	return r, tree, err
}

// local takes a checkout of this machine: what is committed in it, and nothing
// else.
func (c *taskStartCmd) local(ctx context.Context, a *app.App, g checkout.User, tree checkout.Info, into *api.TaskRepository) error {
	if tree.Borrows != nil {
		return tree.Borrows
	}
	into.URL = tree.Root
	commit := tree.Head
	switch {
	case into.Ref != "":
		var err error
		if commit, err = g.Commit(ctx, tree.Root, into.Ref); err != nil {
			return api.Errorf(api.KindInvalid, "--repo: %s", err).WithHint("list them: git branch, git tag; fetch a branch of a remote first: git switch NAME")
		}
	case tree.Head == "":
		return api.Errorf(api.KindInvalid, "%s has no commit yet", tree.Root).WithHint("run git add and git commit")
	case tree.Branch != "":
		into.Ref = tree.Branch
	default:
		into.Ref = tree.Head
	}
	from := fmt.Sprintf("%.12s", commit)
	if into.Ref != commit {
		from = into.Ref + " at " + from
	}
	implied := ""
	if len(c.Repo) == 0 {
		implied = " (--repo . is implied)"
	}
	a.Note("hortus: repository %s%s, from %s", tree.Root, implied, from)
	if tree.Submodules > 0 {
		a.Note("hortus: its %s left out: the content of %s is not included", map[bool]string{true: "submodule is", false: fmt.Sprint(tree.Submodules) + " submodules are"}[tree.Submodules == 1],
			map[bool]string{true: "it", false: "them"}[tree.Submodules == 1])
	}
	switch n := tree.Dirty + tree.Untracked; n {
	case 0:
	case 1:
		a.Note("hortus: 1 file with uncommitted changes is used as committed; its changes are not included")
	default:
		a.Note("hortus: %d files with uncommitted changes are used as committed; the changes are not included", n)
	}
	return nil
}

// exists reports whether a path leads to something.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// author is who the commits are by: --author, or whom git would take.
func (c *taskStartCmd) author(ctx context.Context, a *app.App, g checkout.User, dir string) (api.Identity, error) {
	if c.Author != "" {
		return parseAuthor(c.Author)
	}
	var who api.Identity
	for _, f := range []struct {
		into     *string
		env, key string
	}{{&who.Name, "GIT_AUTHOR_NAME", "user.name"}, {&who.Email, "GIT_AUTHOR_EMAIL", "user.email"}} {
		if *f.into = a.Getenv(f.env); *f.into != "" {
			continue
		}
		var err error
		// Without git a repository with a URL is still worth working on.
		if *f.into, err = g.Setting(ctx, dir, f.key); err != nil && api.KindOf(err) != api.KindUnavailable {
			return who, err
		}
	}
	if who.Name != "" && who.Email != "" {
		return who, checkAuthor(who)
	}
	if c.Push || c.MR {
		return who, api.Errorf(api.KindInvalid, "git has no user name and e-mail, and pushed commits need an author").
			WithHint(`git config --global user.name NAME and git config --global user.email EMAIL; or --author "NAME <EMAIL>"`)
	}
	user := cmp.Or(cmp.Or(a.Getenv("USER"), a.Getenv("LOGNAME")), "hortus")
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	who = api.Identity{Name: cmp.Or(who.Name, user), Email: cmp.Or(who.Email, user+"@"+host)}
	a.Note(`hortus: git has no user name and e-mail: the author of the commits is %s <%s>; set another with --author "NAME <EMAIL>"`, who.Name, who.Email)
	return who, checkAuthor(who)
}

// parseAuthor reads "Name <email>".
func parseAuthor(text string) (api.Identity, error) {
	name, rest, ok := strings.Cut(text, "<")
	email, after, closed := strings.Cut(rest, ">")
	who := api.Identity{Name: strings.TrimSpace(name), Email: strings.TrimSpace(email)}
	if !ok || !closed || strings.TrimSpace(after) != "" {
		return who, api.Errorf(api.KindInvalid, "--author: %.100q is not an author", text).WithHint(`use for example --author "Ada Lovelace <ada@example.com>"`)
	}
	return who, checkAuthor(who)
}

// checkAuthor refuses what cannot stand in a commit.
func checkAuthor(who api.Identity) error {
	for _, s := range []string{who.Name, who.Email} {
		if s == "" || len(s) > 200 || strings.ContainsAny(s, "<>") || strings.ContainsFunc(s, unicode.IsControl) {
			return api.Errorf(api.KindInvalid, "the author %.100q <%.100q> is not valid in a commit", who.Name, who.Email).
				WithHint(`use for example --author "Ada Lovelace <ada@example.com>"`)
		}
	}
	return nil
}

// remote is where a delivery goes; empty for the URL of the repository itself.
func (c *DeliveryFlags) remote(ctx context.Context, a *app.App, g checkout.User, tree checkout.Info) (string, error) {
	address := c.Remote
	switch {
	case address == "" && tree.Root == "":
		return "", nil
	case address == "":
		var err error
		if address, err = g.Remote(ctx, tree.Root, "origin"); err == nil {
			break
		}
		if api.KindOf(err) != api.KindNotFound {
			return "", err
		}
		return "", api.Errorf(api.KindInvalid, "%s has no remote \"origin\" to push to", tree.Root).
			WithHint("set one: --remote URL|NAME; or omit --push and --mr and fetch the result: hortus task apply ID --branch")
	case tree.Root != "" && !strings.ContainsAny(address, "/:\\"):
		var err error
		if address, err = g.Remote(ctx, tree.Root, address); err != nil {
			return "", api.Errorf(api.KindInvalid, "--remote: %s", err).WithHint("list them: git remote -v")
		}
	case !strings.Contains(address, ":") && !filepath.IsAbs(address):
		abs, err := filepath.Abs(address)
		if err != nil || !exists(abs) {
			return "", api.Errorf(api.KindInvalid, "--remote: %.100q is neither a remote nor a directory", address)
		}
		address = abs
	}
	if bare := git.StripCredentials(address); bare != address {
		// It would be stored with the task.
		address = bare
		a.Note("hortus: the user name and password in the remote's URL are ignored; set a token by a variable or a file: docs/configuration.md")
	}
	return address, nil
}

// Address finds the repository that a person names, for commands that start no work: its address, and the branch, tag or
// commit if one is named.
func Address(ctx context.Context, a *app.App, text string) (api.TaskRepository, error) {
	r, tree, err := locate(ctx, a, person(a), text)
	if err == nil && tree.Root != "" {
		r.URL = tree.Root
	}
	return r, err
}

// FindRepository finds the repository that a person names, where its work is delivered, and who the commits are by.
func FindRepository(ctx context.Context, a *app.App, text, author string, to DeliveryFlags) (api.TaskRepository, api.Identity, error) {
	c := taskStartCmd{Repo: []string{text}, Author: author, DeliveryFlags: to}
	g := person(a)
	r, tree, err := c.repository(ctx, a, g, text)
	if err != nil {
		return r, api.Identity{}, err
	}
	if to.Push || to.MR {
		if r.Remote, err = c.remote(ctx, a, g, tree); err != nil {
			return r, api.Identity{}, err
		}
	}
	who, err := c.author(ctx, a, g, cmp.Or(tree.Root, "."))
	return r, who, err
}
