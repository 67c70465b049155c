package cache

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// PushRequest describes a push.
type PushRequest struct {
	Source git.Source
	Commit string // full hash, in the cache
	Branch string // of the remote, without refs/heads/
	// Expect is the lease: the remote's branch must be at this commit or at an ancestor
	// of it. If it is empty, the branch must not exist.
	Expect string
}

// PushResult is the result of a push.
type PushResult struct {
	Created  bool // the branch is new
	UpToDate bool // the branch was at the commit already
}

// Push sets a branch of a remote to a commit. KindConflict if the branch is not where
// Expect allows, also if somebody moves it during the push. A push is idempotent: it
// succeeds if the branch is at the commit already. KindDenied if the remote rejects the
// push; the error has its reason, sanitized and truncated.
//
// A push to a path runs nothing of that repository, hooks included. KindConflict if the
// branch is checked out there.
func (r *Repo) Push(ctx context.Context, q PushRequest) (PushResult, error) {
	a, err := r.cache.access(q.Source)
	if err != nil {
		return PushResult{}, err
	}
	if err := r.git.CheckBranch(ctx, q.Branch); err != nil {
		return PushResult{}, err
	}
	if err := r.requireCommit(ctx, q.Commit); err != nil {
		return PushResult{}, err
	}
	if q.Expect != "" {
		if err := git.CheckHash("the lease", q.Expect); err != nil {
			return PushResult{}, err
		}
	}
	p := push{r, a, q}
	if a.Scheme == "file" {
		return p.pushLocal(ctx)
	}
	return p.pushRemote(ctx)
}

type push struct {
	*Repo
	to access
	q  PushRequest
}

// checkLease returns KindConflict if the branch is not where the lease allows.
func (p push) checkLease(ctx context.Context, at string) error {
	moved := api.Errorf(api.KindConflict, "push: the branch %q of %s is at the unexpected commit %.12s", p.q.Branch, p.to.URL, at).
		WithHint("another client pushed to it; use another name, or start again from its commit")
	switch {
	case at == "" || at == p.q.Expect:
		return nil
	case p.q.Expect == "":
		return moved
	}
	for _, h := range []string{at, p.q.Expect} {
		if have, err := p.peel(ctx, h); err != nil {
			return err
		} else if have != h {
			return moved
		}
	}
	older, err := p.git.Try(ctx, git.Call{GitDir: p.dir, Args: []string{"merge-base", "--is-ancestor", "--end-of-options", at, p.q.Expect}})
	if err == nil && !older {
		return moved
	}
	return err
}

// remoteCommit returns the commit of the remote's branch, "" if it does not exist.
func (p push) remoteCommit(ctx context.Context) (string, error) {
	ref := "refs/heads/" + p.q.Branch
	ad, err := p.cache.advertised(ctx, p.to, nil, ref)
	return ad.refs[ref], err
}

func (p push) pushRemote(ctx context.Context) (PushResult, error) {
	at, err := p.remoteCommit(ctx)
	if err != nil {
		return PushResult{}, err
	}
	if at == p.q.Commit {
		return PushResult{UpToDate: true}, nil
	}
	if err := p.checkLease(ctx, at); err != nil {
		return PushResult{}, err
	}
	ref := "refs/heads/" + p.q.Branch
	// The remote compares and writes in one step, so the branch cannot move between the
	// check of the lease and the write.
	var said strings.Builder
	out, err := p.run(ctx, p.cache.withAccess(p.to, git.Call{Args: []string{"push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no",
		"--force-with-lease=" + ref + ":" + at, "--end-of-options", p.to.URL, p.q.Commit + ":" + ref}, Max: 1 << 20, Lines: func(line string) {
		if text, ok := strings.CutPrefix(line, "remote:"); ok && said.Len() < 2<<10 {
			said.WriteString(strings.TrimSpace(text) + "; ")
		}
	}}))
	if err == nil {
		return PushResult{Created: at == ""}, nil
	}
	why, refused := parseRejection(string(out))
	if !refused {
		return PushResult{}, err
	}
	// An earlier push of ours may have succeeded without its answer arriving.
	if now, e := p.remoteCommit(ctx); e == nil && now == p.q.Commit {
		return PushResult{UpToDate: true}, nil
	}
	text := git.Sanitize(strings.TrimSuffix(said.String(), "; "), 2<<10)
	text = cmp.Or(text, "it gives no reason")
	text = git.Redact(text, p.to.auth.Secrets())
	if strings.Contains(why, "stale info") || strings.Contains(why, "fetch first") || strings.Contains(why, "non-fast-forward") || strings.Contains(why, "cannot lock ref") || strings.Contains(why, "failed to update ref") {
		return PushResult{}, api.Errorf(api.KindConflict, "push: the branch %q of %s moved during the push", p.q.Branch, p.to.URL).
			WithHint("another client pushed to it; use another name, or start again from its commit")
	}
	return PushResult{}, api.Errorf(api.KindDenied, "push: %s rejected the branch %q (%s): %s", p.to.URL, p.q.Branch, git.Sanitize(git.Redact(why, p.to.auth.Secrets()), 300), text).
		WithHint("check the remote's rules for this branch")
}

// parseRejection returns the reason of a rejected ref in the output of push --porcelain:
// "!<tab>from:to<tab>summary (reason)".
func parseRejection(out string) (why string, refused bool) {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "!\t"); ok {
			_, why, _ = strings.Cut(rest, "\t")
			return why, true
		}
	}
	return "", false
}

// pushLocal pushes to a repository on this machine.
func (p push) pushLocal(ctx context.Context) (PushResult, error) {
	to, err := shadow.Open(p.git, ctx, p.to.URL, p.q.Source.Owners)
	if err == nil {
		err = to.CheckComplete()
	}
	if err != nil {
		return PushResult{}, err
	}
	dir, err := os.MkdirTemp(p.cache.cfg.Dir, "tmp-")
	if err != nil {
		return PushResult{}, api.Errorf(api.KindInternal, "push: %w", err)
	}
	defer os.RemoveAll(dir)
	at, err := to.Branch(ctx, filepath.Join(dir, "look"), p.q.Branch)
	if err != nil {
		return PushResult{}, err
	}
	if at == p.q.Commit {
		return PushResult{UpToDate: true}, nil
	}
	if err := p.checkLease(ctx, at); err != nil {
		return PushResult{}, err
	}
	if err := to.Receive(ctx, filepath.Join(dir, "into"), p.dir, p.q.Commit, p.q.Branch, at); err != nil {
		return PushResult{}, err
	}
	return PushResult{Created: at == ""}, nil
}
