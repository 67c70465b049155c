package cache

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// quarantine is a directory for the new objects of a commit whose tree git writes, or another repository has. They are not in the
// repository until they are checked.
type quarantine struct {
	*Repo
	dir  string
	also *Repo    // where objects of the commit are too; nil for none
	held *os.File // the lock of the repository
}

// quarantine creates the directory, in the repository whose lock is held. The caller removes workDir.
func (r *Repo) quarantine(lock *os.File, also *Repo) (*quarantine, error) {
	d := &quarantine{Repo: r, dir: filepath.Join(r.workDir(), "draft"), also: also, held: lock}
	if err := os.MkdirAll(filepath.Join(d.dir, "objects"), 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "commit: %w", err)
	}
	return d, nil
}

// run runs git in the repository; new objects go to the quarantine.
func (d *quarantine) run(ctx context.Context, c git.Call) (string, error) {
	c.GitDir, c.Lock = d.Repo.dir, d.held
	alternates := filepath.Join(d.Repo.dir, "objects")
	if d.also != nil {
		alternates += ":" + filepath.Join(d.also.dir, "objects")
	}
	c.Env = append(c.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(d.dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+alternates,
		"GIT_INDEX_FILE="+filepath.Join(d.dir, "index"))
	c.Dir = cmp.Or(c.Dir, d.dir)
	out, err := d.git.Run(ctx, c)
	return strings.TrimSpace(string(out)), err
}

// commit creates a commit with a tree, and adds its objects to the repository.
func (d *quarantine) commit(ctx context.Context, q CommitRequest, res *CommitResult) error {
	at := strconv.FormatInt(q.When.Unix(), 10) + " +0000"
	hash, err := d.run(ctx, git.Call{Args: []string{"commit-tree", res.Tree, "-p", q.Parent, "-F", "-"}, Stdin: strings.NewReader(q.message()), Env: []string{
		"GIT_AUTHOR_NAME=" + q.Author.Name, "GIT_AUTHOR_EMAIL=" + q.Author.Email, "GIT_AUTHOR_DATE=@" + at,
		"GIT_COMMITTER_NAME=" + q.Committer.Name, "GIT_COMMITTER_EMAIL=" + q.Committer.Email, "GIT_COMMITTER_DATE=@" + at}})
	if err != nil {
		return err
	}
	if !git.IsHash(hash) {
		return api.Errorf(api.KindInternal, "git commit-tree printed unexpected output")
	}
	f, err := os.OpenFile(filepath.Join(d.dir, "pack"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	defer f.Close()
	if _, err := d.run(ctx, git.Call{Args: []string{"pack-objects", "--quiet", "--revs", "--stdout"}, Stdin: strings.NewReader(hash + "\n^" + q.Parent + "\n"), Stdout: f, Max: 1 << 40}); err != nil {
		return err
	}
	return d.adopt(ctx, f, d.held, hash, res)
}
