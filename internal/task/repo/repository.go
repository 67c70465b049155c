package repo

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// repository is one of the repositories of a task.
type repository struct {
	project *project
	api.TaskRepository
	// policy is the file policy for paths relative to the repository, files the same compiled.
	policy api.FilePolicy
	files  *filerule.Policy

	repo *cache.Repo
	base cache.Commit
	// cloned is true if the repository was not in the cache. fetchTook is how long its fetch took.
	cloned    bool
	fetchTook time.Duration
	// outside is what base refers to and the checkout does not have.
	outside   cache.Outside
	offLimits int
	// layer is the checkout of base, without what is off limits.
	layer    Layer
	prepared SetupResult
	goTests  []string // see SetupRequest
	release  []func()
}

// repositories are the repositories of a task.
type repositories []*repository

// several reports whether there is more than one.
func (r repositories) several() bool { return len(r) > 1 }

// dirs are the directories of several repositories; nil for one.
func (r repositories) dirs() (out []string) {
	if !r.several() {
		return nil
	}
	for _, m := range r {
		out = append(out, m.Name)
	}
	return out
}

// layers are the checkouts.
func (r repositories) layers() (out []Layer) {
	for _, m := range r {
		out = append(out, m.layer)
	}
	return out
}

// combine makes one repository of those that have their commits; it is the only one if there are not several.
func (r repositories) combine(ctx context.Context, c *cache.Cache) (*cache.Repo, cache.Commit, error) {
	if !r.several() {
		return r[0].repo, r[0].base, nil
	}
	var all []cache.Member
	for _, m := range r {
		all = append(all, cache.Member{Dir: m.Name, Repo: m.repo, Commit: m.base.Hash})
	}
	return c.Combine(ctx, all)
}

// divide makes the commits of several repositories from that of all, sets their branches, and returns the commits; one is
// empty where nothing was changed.
func (r repositories) divide(ctx context.Context, from *cache.Repo, head, branch string, q cache.CommitRequest) (heads []string, err error) {
	for _, m := range r {
		q.Parent, q.Dirs = m.base.Hash, nil
		part, err := m.repo.CommitTree(ctx, from, head, m.Name, q)
		if err == nil && !part.Empty {
			err = m.repo.SetBranch(ctx, branch, part.Hash)
		}
		if err != nil {
			return nil, api.Errorf(api.KindOf(err), "%s: %w", m.Name, err)
		}
		heads = append(heads, part.Hash)
	}
	return heads, nil
}

// enlist makes the members, and compiles the file policy of the workspace and of each.
func (w *project) enlist() (err error) {
	w.members = nil
	for _, r := range w.req.All() {
		m := &repository{project: w, TaskRepository: r, policy: w.req.FilePolicy}
		if len(w.req.Also) > 0 {
			m.policy = filerule.ForRepository(w.req.FilePolicy, m.Name)
		}
		if m.files, err = filerule.Compile(m.policy); err != nil {
			return err
		}
		w.members = append(w.members, m)
	}
	if w.files = w.members[0].files; w.members.several() {
		w.files, err = filerule.Compile(filerule.ForWorkspace(w.req.FilePolicy, w.members.dirs()))
	}
	return err
}

// each calls f for all members side by side and waits. The first error ends the others.
func (w *project) each(ctx context.Context, f func(context.Context, *repository) error) error {
	if !w.members.several() {
		m := w.members[0]
		err := f(ctx, m)
		w.release, m.release = append(w.release, m.release...), nil
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, m := range w.members {
		wg.Go(func() {
			if err := f(ctx, m); err != nil {
				if ctx.Err() == nil {
					err = api.Errorf(api.KindOf(err), "%s: %w", m.Name, err).WithHint("%s", api.HintOf(err))
				}
				cancel(err)
			}
		})
	}
	wg.Wait()
	for _, m := range w.members {
		w.release, m.release = append(w.release, m.release...), nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// step is a step of the task for this repository.
func (m *repository) step(ctx context.Context, e api.RepoStepEvent, do func() (string, error)) error {
	e.Repository = m.Name
	return m.project.steps.do(ctx, e, do)
}

// emit emits an event of a step that runs.
func (m *repository) emit(ctx context.Context, e api.RepoStepEvent) {
	e.Repository = m.Name
	m.project.steps.tell(ctx, api.EventRepoStep, e)
}

// fetch brings the repository into the cache and finds the commit that the work starts from.
func (m *repository) fetch(ctx context.Context) error {
	return m.step(ctx, api.RepoStepEvent{Step: "fetch", Detail: git.DisplayAddress(m.URL)}, func() (string, error) {
		src, err := m.project.cfg.Deliverer.Source(ctx, m.URL)
		if err != nil {
			return "", err
		}
		began := m.project.cfg.Now()
		var did cache.Fetched
		if m.repo, did, err = m.project.cfg.Git.Update(ctx, src, func(line string) {
			m.emit(ctx, api.RepoStepEvent{Step: "fetch", Detail: line})
		}); err != nil {
			return "", err
		}
		m.cloned, m.fetchTook = did.Cold, m.project.cfg.Now().Sub(began)
		if m.base, err = m.start(ctx); err != nil {
			return "", err
		}
		return shortHash(m.base.Hash) + " " + m.base.Subject, nil
	})
}

func shortHash(hash string) string { return hash[:min(len(hash), 10)] }

// start finds the commit that the work starts from. A task that continues another one
// keeps its commit, also if the branch has moved: its workspace lies on that one.
func (m *repository) start(ctx context.Context) (cache.Commit, error) {
	before := m.project.last()
	if before == nil {
		return m.repo.Resolve(ctx, m.Ref)
	}
	was, err := m.recorded(*before)
	if err != nil {
		return cache.Commit{}, err
	}
	c, err := m.repo.Resolve(ctx, was.Commit)
	c.Branch = was.Base
	return c, err
}

// recorded returns the part of a task's result that is of this repository.
func (m *repository) recorded(res api.RepoResult) (api.RepoResult, error) {
	if !m.project.members.several() {
		return res, nil
	}
	part, ok := res.Of(m.Name)
	if !ok {
		return part, api.Errorf(api.KindConflict, "the task has no result of the repository %s", m.Name)
	}
	return part, nil
}

// meet makes one repository of the members, which have their commits.
func (w *project) meet(ctx context.Context) (err error) {
	if w.repo, w.base, err = w.members.combine(ctx, w.cfg.Git); err == nil && w.members.several() {
		err = w.takeCommits(ctx, "", w.repo)
	}
	return err
}

// locate finds what a task worked on that is not running: its repositories and the commits that it started from.
func (w *project) locate(ctx context.Context, res api.RepoResult) error {
	if err := w.enlist(); err != nil {
		return err
	}
	for _, m := range w.members {
		was, err := m.recorded(res)
		if err != nil {
			return err
		}
		if m.repo, err = w.cfg.Git.Find(m.URL); err != nil {
			return err
		}
		m.base = cache.Commit{Hash: was.Commit, Branch: was.Base}
	}
	err := w.meet(ctx)
	if err == nil && w.base.Hash != res.Commit {
		err = api.Errorf(api.KindInternal, "the commits of the task's repositories give %s instead of %s", w.base.Hash, res.Commit)
	}
	return err
}

// recall is locate for a task that is over, perhaps on another node: what is missing here comes from the remotes and the archive.
func (w *project) recall(ctx context.Context, res api.RepoResult) error {
	err := w.locate(ctx, res)
	if w.cfg.Archive == nil || err == nil && w.has(ctx, res) {
		return err
	}
	dir, remove, ferr := w.cfg.Archive.FetchBeside(ctx, cmp.Or(res.Checkpoint, res.Workspace))
	switch {
	case api.KindOf(ferr) == api.KindNotFound:
		return err // nothing is missing that another node has
	case ferr != nil:
		return api.Errorf(api.KindOf(ferr), "the result of task %s: %w", w.task.ID, ferr).WithHint("%s", api.HintOf(ferr))
	}
	defer func() {
		if err := remove(); err != nil {
			w.cfg.Logger.Warn("cannot remove what was fetched from the archive", "task", w.task.ID, "err", err)
		}
	}()
	w.beside = dir
	for _, m := range w.members {
		was, err := m.recorded(res)
		if err != nil {
			return err
		}
		m.base = cache.Commit{Hash: was.Commit, Branch: was.Base}
		if err := m.refetch(ctx); err != nil {
			return err
		}
	}
	return w.locate(ctx, res)
}

// has reports whether the commits of a result are here.
func (w *project) has(ctx context.Context, res api.RepoResult) bool {
	has := func(r *cache.Repo, head string) bool {
		ok, err := r.Has(ctx, head)
		return head == "" || ok && err == nil
	}
	for _, m := range w.members {
		if part, err := m.recorded(res); err == nil && !has(m.repo, part.Head) {
			return false
		}
	}
	return has(w.repo, res.Head)
}

// part returns the changes of a member, with paths relative to it.
func (m *repository) part(changes []cache.Change) (out []cache.Change) {
	if !m.project.members.several() {
		return changes
	}
	for _, c := range changes {
		if p, mine := strings.CutPrefix(c.Path, m.Name+"/"); mine {
			c.Path = p
			out = append(out, c)
		}
	}
	return out
}

// visible lists the files of the base that are not off limits, and counts those that are.
func (m *repository) visible(ctx context.Context) ([]cache.Entry, int, error) {
	return visible(ctx, m.repo, m.base, m.files)
}

// at is a path of the repository in the workspace.
func (m *repository) at(p string) string { return path.Join(m.Name, p) }

// branch is the branch of the base for people and keys, or its commit.
func (m *repository) branch() string { return cmp.Or(m.base.Branch, m.base.Hash) }

// checkout makes a layer of the commit, unless there is one.
func (m *repository) checkout(ctx context.Context) error {
	return m.step(ctx, api.RepoStepEvent{Step: "checkout"}, func() (string, error) {
		remote, err := m.project.cfg.Git.Remote(m.URL)
		if err != nil {
			return "", err
		}
		// The address is in the key: what one repository has under the name of a commit is
		// never the layer of another one.
		key := remote.BranchKey(m.base.Branch)
		name := "checkout 2 " + key + " " + m.base.Hash + " " + checkoutBranch(m.base) + m.leftOut()
		if m.Name != "" {
			name += " in " + m.Name
		}
		built, began := false, m.project.cfg.Now()
		write := func(ctx context.Context, dir string) error {
			built = true
			_, err := m.repo.Checkout(ctx, m.base.Hash, filepath.Join(dir, m.Name), cache.CheckoutOptions{Branch: checkoutBranch(m.base), Depth: historyDepth, Files: m.files})
			return err
		}
		// Of the tasks that need it at the same time, one writes it.
		_, _, err = m.project.checkouts.Do(ctx, name, nil, func(ctx context.Context, _ *flight.Flight) (struct{}, error) {
			_, release, err := m.project.cfg.Sandboxes.Layer(ctx, name, write)
			if err == nil {
				release()
			}
			return struct{}{}, err
		})
		if err != nil {
			return "", err
		}
		layer, release, err := m.project.cfg.Sandboxes.Layer(ctx, name, write)
		if err != nil {
			return "", err
		}
		m.layer, m.release = layer, append(m.release, release)
		m.tiers(ctx, key, built, m.project.cfg.Now().Sub(began))
		files, offLimits, err := m.visible(ctx)
		if err != nil {
			return "", err
		}
		m.offLimits = offLimits
		if m.outside, err = m.repo.Outside(ctx, files); err != nil {
			return "", err
		}
		return contents(len(files), offLimits, m.outside, built), nil
	})
}

// contents describes a checkout.
func contents(files, offLimits int, outside cache.Outside, built bool) string {
	count := func(n int, noun string) string {
		if n != 1 {
			noun += "s"
		}
		return fmt.Sprintf("%d %s", n, noun)
	}
	parts := []string{count(files-len(outside.Submodules), "file")}
	if !built {
		parts[0] = "reused: " + parts[0]
	}
	if n := offLimits; n > 0 {
		parts = append(parts, fmt.Sprintf("%d off limits", n))
	}
	if n := len(outside.Submodules); n > 0 {
		parts = append(parts, count(n, "submodule")+" not fetched")
	}
	if n := outside.Pointers; n > 0 {
		parts = append(parts, count(n, "Git LFS pointer"))
	}
	return strings.Join(parts, ", ")
}

// tiers reports where the checkout came from: its layer, the copy of the repository, or the
// remote.
func (m *repository) tiers(ctx context.Context, key string, built bool, took time.Duration) {
	tier := func(name string, hit bool, took time.Duration) {
		m.project.steps.tell(ctx, api.EventTier, api.TierEvent{Part: "repository", Tier: name, Hit: hit, Key: key, Commit: m.base.Hash, MS: took.Milliseconds()})
	}
	if !built {
		tier(api.TierPacked, true, took)
		return
	}
	tier(api.TierPacked, false, 0)
	if !m.cloned {
		tier(api.TierRaw, true, took)
		return
	}
	tier(api.TierRaw, false, 0)
	tier(api.TierCold, true, m.fetchTook+took)
}

// checkoutBranch is the branch that the agent finds itself on.
func checkoutBranch(c cache.Commit) string {
	if c.Branch != "" {
		return c.Branch
	}
	return "main"
}
