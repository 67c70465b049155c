package connected

import (
	"cmp"
	"context"
	"log/slog"
	"path"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Rows keeps the rows. An account "" is the operator's in NamedRepository, and everybody's in
// the others.
type Rows interface {
	InsertRepository(ctx context.Context, r api.Repository) error
	// ChangeRepository may call change more than once, and with the rows of other daemons' changes.
	ChangeRepository(ctx context.Context, id api.RepositoryID, change func(*api.Repository) error) (api.Repository, error)
	Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	// ListRepositories lists those that are not removed.
	ListRepositories(ctx context.Context) ([]api.Repository, error)
	RepositoryPage(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error)
	FindRepositoryOf(ctx context.Context, account, prefix string) (api.RepositoryID, error)
	NamedRepository(ctx context.Context, account, name string) (api.Repository, error)
}

// Config is what repositories are kept with. Cache is nil on a machine without git: then
// nothing can be added or fetched. Now and Logger may be nil.
type Config struct {
	Cache *cache.Cache
	// Source adds the credentials that an account has for an address.
	Source func(ctx context.Context, account, url string) (git.Source, error)
	// Rights tests what an account may do with a repository. It may be nil if no repository has a secret.
	Rights func(ctx context.Context, account string, req api.CheckRepository) (api.RepositoryAccess, error)
	// CheckIsolation refuses what names no backend. It may be nil if no repository has a default isolation.
	CheckIsolation func(name string) error
	// Policies have the branch policy of the operator. It may be nil if no repository has a policy.
	Policies Policies
	Rows     Rows
	Owner    api.OwnerID
	Now      func() time.Time
	Logger   *slog.Logger
}

// maxConnected is the maximum number of connected repositories of a daemon.
const maxConnected = 1000

// Repositories are the connected repositories of a daemon. Its methods may be called from
// several goroutines.
type Repositories struct {
	cfg Config
	// changed has something when there may be something new to prepare.
	changed chan struct{}
}

// New keeps repositories.
func New(cfg Config) *Repositories {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Repositories{cfg: cfg, changed: make(chan struct{}, 1)}
}

// Add connects a repository and fetches it. progress, if not nil, receives the lines of git's
// progress. If the first fetch fails, nothing is connected. KindExists if the account has
// the name, or the same address and branch; KindInvalid for what is malformed; otherwise the
// kinds of [cache.Cache.Update].
func (s *Repositories) Add(ctx context.Context, req api.AddRepository, progress func(string)) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	row, err := s.newRow(req)
	if err != nil {
		return api.Repository{}, err
	}
	all, err := s.cfg.Rows.ListRepositories(ctx)
	if err != nil {
		return api.Repository{}, err
	}
	if len(all) >= maxConnected {
		return api.Repository{}, api.Errorf(api.KindExhausted, "%d repositories are connected, which is the maximum", len(all)).
			WithHint("disconnect one: hortus repo rm NAME")
	}
	for _, r := range all {
		if r.Account == row.Account && (r.Name == row.Name || r.Key == row.Key) {
			return api.Repository{}, exists(r, row)
		}
	}
	if err := s.credential(ctx, &row, req.Secret, req.App); err != nil {
		return api.Repository{}, err
	}
	// A caller that disappears must not leave it in doubt whether the row exists.
	if err := s.cfg.Rows.InsertRepository(context.WithoutCancel(ctx), row); err != nil {
		if api.KindOf(err) == api.KindExists {
			err = exists(row, row)
		}
		return api.Repository{}, err
	}
	row, err = s.fetch(ctx, row, progress)
	if err != nil {
		if _, e := s.Remove(context.WithoutCancel(ctx), row.ID); e != nil {
			s.cfg.Logger.Error("cannot remove the row of a repository that was not added", "repository", row.ID, "error", e)
		}
		return api.Repository{}, err
	}
	if row.PrepareEveryMS > 0 {
		s.wake()
	}
	return row, nil
}

func exists(have, want api.Repository) error {
	if have.Name == want.Name {
		return api.Errorf(api.KindExists, "a repository named %s is connected already", want.Name).
			WithHint("fetch it (hortus repo sync %s), or use another name (--name)", want.Name)
	}
	return api.Errorf(api.KindExists, "%s is connected already as %s", want.URL, have.Name).
		WithHint("fetch it: hortus repo sync %s", have.Name)
}

func (s *Repositories) usable() error {
	if s.cfg.Cache == nil {
		return api.Errorf(api.KindUnsupported, "git is not installed, and repositories need it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	return nil
}

// newRow validates a request.
func (s *Repositories) newRow(req api.AddRepository) (api.Repository, error) {
	remote, err := s.cfg.Cache.Remote(req.URL)
	if err != nil {
		return api.Repository{}, err
	}
	if req.Branch != "" {
		if err := git.CheckRevision(req.Branch); err != nil {
			return api.Repository{}, err
		}
	}
	name := cmp.Or(req.Name, nameOf(remote.URL))
	if !api.ValidRepositoryName(name) {
		if req.Name == "" {
			return api.Repository{}, api.Errorf(api.KindInvalid, "no name follows from the address %q", git.DisplayAddress(req.URL)).WithHint("set one with --name")
		}
		return api.Repository{}, api.Errorf(api.KindInvalid, "%.80q is not a valid name for a repository", req.Name).
			WithHint(`use 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit`)
	}
	if err := (api.RepositorySchedule{PrepareEveryMS: req.PrepareEveryMS}).Check(); err != nil {
		return api.Repository{}, err
	}
	row := api.Repository{
		ID: api.NewRepositoryID(), State: api.RepositoryFetching, Name: name, URL: remote.URL, Branch: req.Branch, Key: remote.BranchKey(req.Branch),
		Account: req.Account, Owner: s.cfg.Owner, CreatedAt: s.now(),
	}
	schedule(&row, req.PrepareEveryMS, row.CreatedAt)
	return row, nil
}

func (s *Repositories) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// nameOf derives a name from an address: its last part, in lower case. Other characters
// become "-".
func nameOf(url string) string {
	if i := strings.LastIndexByte(url, ':'); i >= 0 && !strings.Contains(url, "://") && !strings.Contains(url[i:], "/") {
		url = url[i+1:] // host:repository
	}
	name := strings.TrimSuffix(path.Base(strings.TrimRight(url, "/")), ".git")
	name = strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		if api.ValidRepositoryName("a" + string(r)) {
			return r
		}
		return '-'
	}, name)
	name = strings.TrimLeft(name, "._-")
	return name[:min(len(name), 63)]
}

// Sync fetches a repository. A failure is recorded in its row, and returned.
func (s *Repositories) Sync(ctx context.Context, id api.RepositoryID, progress func(string)) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	row, err := s.Change(ctx, id, func(row *api.Repository) {
		row.State, _ = api.NextRepositoryState(row.State, api.RepositorySync)
		row.Owner = s.cfg.Owner
	})
	if err != nil {
		return api.Repository{}, err
	}
	return s.fetch(ctx, row, progress)
}

func gone(row api.Repository) error {
	return api.Errorf(api.KindConflict, "repository %s is not connected any more", row.Name).WithHint("connect it again: hortus repo add %s", row.URL)
}

// fetch updates the copy of a repository whose row says that it is fetching, and the row.
func (s *Repositories) fetch(ctx context.Context, row api.Repository, progress func(string)) (api.Repository, error) {
	began := s.cfg.Now()
	err := func() error {
		src, err := s.cfg.Source(ctx, row.Account, row.URL)
		if err != nil {
			return err
		}
		repo, did, err := s.cfg.Cache.Update(ctx, src, progress)
		if err != nil {
			return err
		}
		at, err := repo.Resolve(ctx, ref(row))
		if api.KindOf(err) == api.KindNotFound && row.Branch != "" {
			return api.Errorf(api.KindNotFound, "%s has no branch %q", git.DisplayAddress(row.URL), row.Branch).
				WithHint("connect it without a branch; a task can start from a tag or a commit: hortus task --repo NAME@REF")
		}
		if err != nil {
			return err
		}
		files, err := repo.Files(ctx, at.Hash)
		if err != nil {
			return err
		}
		outside, err := repo.Outside(ctx, files)
		if err != nil {
			return err
		}
		row.Submodules, row.LFSFiles, row.LFSBytes = len(outside.Submodules), outside.Pointers, outside.PointerBytes
		row.Commit, row.Subject, row.Bytes, row.Objects = at.Hash, at.Subject, repo.Size(), did.Objects
		row.FetchedAt, row.FetchMS = s.now(), s.cfg.Now().Sub(began).Milliseconds()
		return nil
	}()
	event := api.RepositoryDone
	row.Error = nil
	if err != nil {
		event = api.RepositoryBroken
		e := api.AsError(err)
		row.Error = &api.Error{Kind: e.Kind, Message: e.Error(), Hint: e.Hint}
		if ctx.Err() != nil {
			row.Error = &api.Error{Kind: api.KindCanceled, Message: "the fetch was cancelled", Hint: "hortus repo sync " + row.Name}
		}
	}
	row.State, _ = api.NextRepositoryState(api.RepositoryFetching, event)
	_, e := s.cfg.Rows.ChangeRepository(context.WithoutCancel(ctx), row.ID, func(now *api.Repository) error {
		row.PrepareEveryMS, row.Preparation = now.PrepareEveryMS, now.Preparation
		row.Secret, row.App, row.Forge, row.Verify, row.Hook, row.Policy, row.Isolation = now.Secret, now.App, now.Forge, now.Verify, now.Hook, now.Policy, now.Isolation
		*now = row
		return nil
	})
	if e != nil && err == nil {
		if api.KindOf(e) == api.KindConflict {
			e = gone(row)
		}
		return row, e
	}
	return row, err
}

// ref is the branch that a repository is used at; empty is its default branch.
func ref(row api.Repository) string {
	if row.Branch == "" {
		return ""
	}
	return "refs/heads/" + row.Branch
}

// Remove disconnects a repository; it is idempotent. Its copy stays in the cache, for the
// results of tasks, until it is collected.
func (s *Repositories) Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return s.cfg.Rows.ChangeRepository(ctx, id, func(row *api.Repository) error {
		if !row.State.Final() {
			row.State, _ = api.NextRepositoryState(row.State, api.RepositoryRemove)
			row.EndedAt = s.now()
		}
		return nil
	})
}

// Get returns a repository.
func (s *Repositories) Get(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return s.cfg.Rows.Repository(ctx, id)
}

// Page returns one page of the connected repositories of an account, the newest first;
// account "" means everybody's.
func (s *Repositories) Page(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error) {
	return s.cfg.Rows.RepositoryPage(ctx, account, p)
}

// Find returns the repository that a unique beginning of an id stands for.
func (s *Repositories) Find(ctx context.Context, account, prefix string) (api.RepositoryID, error) {
	return s.cfg.Rows.FindRepositoryOf(ctx, account, prefix)
}

// Named returns the connected repository of an account with a name; account "" is the
// operator's own. KindNotFound if there is none.
func (s *Repositories) Named(ctx context.Context, account, name string) (api.Repository, error) {
	return s.cfg.Rows.NamedRepository(ctx, account, name)
}

// Kept returns the names of the copies in the cache that a repository is connected to.
func (s *Repositories) Kept(ctx context.Context) (map[string]bool, error) {
	all, err := s.cfg.Rows.ListRepositories(ctx)
	if err != nil || s.cfg.Cache == nil {
		return nil, err
	}
	kept := map[string]bool{}
	for _, r := range all {
		if name, err := s.cfg.Cache.NameOf(r.URL); err == nil {
			kept[name] = true
		}
	}
	return kept, nil
}

// Schedule sets the interval of the preparations of a repository; 0 ends them.
func (s *Repositories) Schedule(ctx context.Context, id api.RepositoryID, req api.RepositorySchedule) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	if err := req.Check(); err != nil {
		return api.Repository{}, err
	}
	defer s.wake()
	return s.Change(ctx, id, func(r *api.Repository) { schedule(r, req.PrepareEveryMS, s.now()) })
}

// schedule sets the interval in a row. The first preparation is due now, each later one an
// interval after the end of the one before.
func schedule(r *api.Repository, everyMS int64, now time.Time) {
	r.PrepareEveryMS = everyMS
	var p api.Preparation
	switch {
	case r.Preparation != nil:
		p = *r.Preparation
	case everyMS == 0:
		return
	}
	switch {
	case everyMS == 0:
		p.NextAt = time.Time{}
	case p.EndedAt.IsZero():
		p.NextAt = now
	default:
		p.NextAt = p.EndedAt.Add(time.Duration(everyMS) * time.Millisecond)
	}
	r.Preparation = &p
}

// Prepare requests the preparation of a repository in the background.
func (s *Repositories) Prepare(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	if err := s.usable(); err != nil {
		return api.Repository{}, err
	}
	defer s.wake()
	return s.Change(ctx, id, func(r *api.Repository) {
		var p api.Preparation
		if r.Preparation != nil {
			p = *r.Preparation
		}
		p.Requested = true
		r.Preparation = &p
	})
}

// Change changes the row of a repository, by do, which may be called more than once. KindConflict if it is not connected any more.
func (s *Repositories) Change(ctx context.Context, id api.RepositoryID, do func(*api.Repository)) (api.Repository, error) {
	return s.cfg.Rows.ChangeRepository(context.WithoutCancel(ctx), id, func(row *api.Repository) error {
		if row.State.Final() {
			return gone(*row)
		}
		do(row)
		return nil
	})
}

// List lists the connected repositories of all accounts.
func (s *Repositories) List(ctx context.Context) ([]api.Repository, error) {
	return s.cfg.Rows.ListRepositories(ctx)
}

// Changed has something when a schedule was set or a preparation was requested.
func (s *Repositories) Changed() <-chan struct{} { return s.changed }

func (s *Repositories) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Recover marks the repositories as failed whose fetch was running in a daemon that has
// ended, and requests the preparations again that were running in it. It returns how many
// repositories it changed.
func (s *Repositories) Recover(ctx context.Context, ended func(api.OwnerID) bool) (n int, err error) {
	all, err := s.cfg.Rows.ListRepositories(ctx)
	over := func(owner api.OwnerID) bool { return owner != s.cfg.Owner && ended(owner) }
	fetching := func(r api.Repository) bool { return r.State == api.RepositoryFetching && over(r.Owner) }
	preparing := func(r api.Repository) bool {
		return r.Preparation != nil && r.Preparation.Running && over(r.Preparation.Owner)
	}
	for _, r := range all {
		if !fetching(r) && !preparing(r) {
			continue
		}
		_, err := s.cfg.Rows.ChangeRepository(ctx, r.ID, func(r *api.Repository) error {
			if fetching(*r) {
				r.State, _ = api.NextRepositoryState(r.State, api.RepositoryBroken)
				r.Error = &api.Error{Kind: api.KindUnavailable, Message: "the daemon ended during the fetch", Hint: "hortus repo sync " + r.Name}
			}
			if preparing(*r) {
				p := *r.Preparation
				p.Running, p.Requested = false, true
				r.Preparation = &p
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, err
}
