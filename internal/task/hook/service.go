package hook

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/perkey"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/payload"
	"hortus.dev/internal/store"
)

// Forge is a repository at its forge.
type Forge interface {
	// Name is the kind.
	Name() string
	// MayWrite reports whether an account may write to the repository.
	MayWrite(ctx context.Context, login string, id int64) (bool, error)
	// Comment writes a comment on an issue.
	Comment(ctx context.Context, issue int, body string) error
}

// Repositories are the connected repositories.
type Repositories interface {
	Get(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Change(ctx context.Context, id api.RepositoryID, do func(*api.Repository)) (api.Repository, error)
}

// Secrets keeps the signing secrets. They have no bindings, so no sandbox can be granted one.
type Secrets interface {
	Set(ctx context.Context, account, name string, req secrets.Set) (secrets.Secret, error)
	Value(ctx context.Context, account, name string) (string, error)
	Remove(ctx context.Context, account, name string) (secrets.Secret, error)
}

// Engine runs tasks.
type Engine interface {
	CheckItem(ctx context.Context, create api.CreateTask) (api.CreateTask, error)
	CreateAs(ctx context.Context, id api.TaskID, req api.CreateTask) (api.Task, error)
	Wait(ctx context.Context, id api.TaskID) (api.Task, error)
}

// Log takes facts.
type Log interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Config is what a Service is made of. All fields are required but Now and Logger.
type Config struct {
	Rows         store.HookEvents
	Repositories Repositories
	Secrets      Secrets
	Engine       Engine
	// Task reads a task.
	Task func(ctx context.Context, id api.TaskID) (api.Task, error)
	Log  Log
	// Forge opens the repository of a remote with the token that the account of ctx has for it. Locate finds it without a request; the
	// kind of the forge is known.
	Forge  func(ctx context.Context, remote string) (Forge, error)
	Locate func(remote, kind string) (forge.Location, error)
	// Address is the URL that forges and browsers reach the daemon at; empty if there is none.
	Address func() string
	// Follows reports whether this daemon follows a task, of several with the same rows; nil if it is the only one.
	Follows func(context.Context, api.Task) bool
	Now     func() time.Time
	Logger  *slog.Logger
}

// Service is the hooks of a daemon. Its methods may be called from several goroutines.
type Service struct {
	cfg Config
	// nobody is a secret that nobody knows, for requests to hooks that do not exist.
	nobody string
	// starts has a repository while the budget of its day is read and a request stored.
	starts perkey.Locks

	life context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	over bool
	// followed are the tasks that are followed.
	followed map[api.TaskID]bool
	work     sync.WaitGroup
}

// New makes a Service. [Service.Close] ends it.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, nobody: payload.NewSecret(), followed: map[api.TaskID]bool{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends the comments on tasks, and waits.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.end()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindTimeout, "timeout: comments of webhooks did not end")
	}
}

// goes runs f in a goroutine that Close awaits; after Close it does not run.
func (s *Service) goes(f func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.work.Go(func() { f(s.life) })
	}
}

func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// SecretName is the name of the secret that signs the events of a repository.
func SecretName(id api.RepositoryID) string { return "hook-" + string(id) }

// as is a context for the account of a repository, whose tokens and limits its tasks use.
func as(ctx context.Context, row api.Repository) context.Context {
	return api.WithPrincipal(ctx, api.Principal{Account: row.Account, Role: api.RoleAdmin})
}

// Set sets the hook of a repository. The daemon must have a token for its forge.
func (s *Service) Set(ctx context.Context, id api.RepositoryID, req api.SetRepositoryHook) (api.RepositoryHookState, error) {
	var none api.RepositoryHookState
	h := req.Hook
	if err := h.Check(); err != nil {
		return none, err
	}
	row, err := s.cfg.Repositories.Get(ctx, id)
	if err != nil {
		return none, err
	}
	f, err := s.cfg.Forge(as(ctx, row), row.URL)
	if err != nil {
		return none, api.Errorf(api.KindOf(err), "a webhook needs a forge that the daemon has a token for: %w", err).WithHint("%s", api.HintOf(err))
	}
	h.Forge = f.Name()
	loc, err := s.cfg.Locate(row.URL, h.Forge)
	if err != nil {
		return none, err
	}
	probe := asked{event: payload.Event{Issue: 1}, where: loc, text: "Check the settings"}
	if _, err := s.cfg.Engine.CheckItem(as(ctx, row), probe.task(row, h, 0)); err != nil {
		return none, api.Errorf(api.KindOf(err), "no task could be started with this hook: %w", err).WithHint("%s", api.HintOf(err))
	}
	secret := ""
	if row.Hook == nil || req.NewSecret {
		secret = payload.NewSecret()
		if _, err := s.cfg.Secrets.Set(ctx, row.Account, SecretName(id), secrets.Set{Value: secret}); err != nil {
			return none, err
		}
	}
	if _, err = s.cfg.Repositories.Change(ctx, id, func(r *api.Repository) { r.Hook = &h }); err != nil {
		return none, err
	}
	out, err := s.State(ctx, id)
	if out.Secret = secret; secret != "" {
		out.Steps = steps(h, out.URL)
	}
	return out, err
}

// Remove removes the hook of a repository and its secret. The events stay.
func (s *Service) Remove(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	row, err := s.cfg.Repositories.Get(ctx, id)
	if err != nil || row.Hook == nil {
		return row, err
	}
	if row, err = s.cfg.Repositories.Change(ctx, id, func(r *api.Repository) { r.Hook = nil }); err != nil {
		return row, err
	}
	if _, err := s.cfg.Secrets.Remove(ctx, row.Account, SecretName(id)); err != nil && api.KindOf(err) != api.KindNotFound {
		return row, err
	}
	return row, nil
}

// shown is the number of events that State returns.
const shown = 50

// State returns the hook of a repository with its last events.
func (s *Service) State(ctx context.Context, id api.RepositoryID) (out api.RepositoryHookState, err error) {
	row, err := s.cfg.Repositories.Get(ctx, id)
	if err != nil {
		return out, err
	}
	if out.Events, err = s.cfg.Rows.HookEventsOf(ctx, id, time.Time{}, shown); err != nil {
		return out, err
	}
	if out.Events == nil {
		out.Events = []api.HookEvent{}
	}
	if out.Hook = row.Hook; row.Hook == nil {
		return out, nil
	}
	if at := s.cfg.Address(); at != "" {
		out.URL = at + "/v1/hooks/" + string(id)
	}
	out.TasksToday, out.USDToday, err = s.spent(ctx, id)
	return out, err
}

// steps say what to enter at the forge.
func steps(h api.RepositoryHook, address string) (out []string) {
	events := map[string][2]string{forge.GitHub: {"Issues", "Issue comments"}, forge.GitLab: {"Issues events", "Comments"}, forge.Gitea: {"Issue Labeled", "Issue Comment"}}[h.Forge]
	on := ""
	switch {
	case h.Label == "":
		on = events[1]
	case h.Command == "":
		on = events[0]
	default:
		on = events[0] + ", " + events[1]
	}
	switch h.Forge {
	case forge.GitHub:
		out = append(out, "In the repository: Settings, Webhooks, Add webhook.", "Payload URL: the URL. Content type: application/json. Secret: the secret.", "Let me select individual events: "+on+". Deselect Pushes.")
	case forge.GitLab:
		out = append(out, "In the project: Settings, Webhooks, Add new webhook.", "URL: the URL. Signing token: the secret; if there is no such field: Secret token.", "Trigger: "+on+".")
	default:
		out = append(out, "In the repository: Settings, Webhooks, Add Webhook, Gitea (or Forgejo).", "Target URL: the URL. Method: POST. Content type: application/json. Secret: the secret.", "Trigger on: Custom Events: "+on+".")
	}
	u, err := url.Parse(address)
	switch {
	case address == "":
		out = append(out, "The daemon listens on no address yet: run hortus serve, and set serve.public-url to the address that the forge reaches.")
	case err == nil && u.Scheme != "https":
		out = append(out, "The forge must reach the URL. If it is on another machine: serve over HTTPS, and set serve.public-url.")
	}
	return out
}
