package secret

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/policy"
)

// Rows keeps the rows. Account "" is the operator's own everywhere. store.Secrets has the contract
// of the methods that it has too.
type Rows interface {
	PutSecret(ctx context.Context, s secrets.Secret, value string, most int) (secrets.Secret, error)
	Secret(ctx context.Context, account, name string) (secrets.Secret, error)
	SecretValue(ctx context.Context, account, name string) (string, error)
	RenewSecret(ctx context.Context, account, name, was, value string, at time.Time) error
	RemoveSecret(ctx context.Context, account, name string) (secrets.Secret, error)
	SecretPage(ctx context.Context, account string, p api.PageRequest) ([]secrets.Secret, string, error)
	InsertSecretUses(ctx context.Context, all []secrets.Use) error
	ReserveSecret(ctx context.Context, by secrets.Spender, a secrets.Amounts) (over *secrets.Exhausted, err error)
	SettleSecret(ctx context.Context, by secrets.Spender, change secrets.Amounts) error
	ResetSecretSpent(ctx context.Context, account, name string) error
	SecretSpent(ctx context.Context, account, name string, at time.Time, tasks int) (secrets.Spent, error)
	SecretUsePage(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error)
}

// Config is what secrets are kept with. Only Rows is required.
type Config struct {
	Rows Rows
	// Getenv returns a variable of the daemon's environment; nil means os.Getenv.
	Getenv func(name string) string
	// Environ is the environment of commands; nil means that of the daemon.
	Environ []string
	// Count is called with each use, recorded or not; it must not block. nil counts nothing.
	Count func(secrets.Use)
	// Changed is called after a secret was set or removed; nil for nobody.
	Changed func(ctx context.Context, account, name string)
	// Timeout is the maximum time of a command (default 30 s).
	Timeout time.Duration
	// BudgetWait is the maximum time that a request waits for what others reserved of a budget
	// (default 1 min).
	BudgetWait time.Duration
	// Queue is the maximum number of uses that wait to be stored (default 4096).
	Queue  int
	Limits Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// Secrets are the secrets of a daemon. Make them with New, and close them. The methods may be called
// from several goroutines.
type Secrets struct {
	cfg      Config
	commands *commands
	uses     *recorder
	budgets  *budgets
}

// New opens the secrets of a daemon.
func New(cfg Config) *Secrets {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	if cfg.Changed == nil {
		cfg.Changed = func(context.Context, string, string) {}
	}
	if cfg.Count == nil {
		cfg.Count = func(secrets.Use) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.BudgetWait = cmp.Or(cfg.BudgetWait, time.Minute)
	cfg.Limits = cfg.Limits.orDefaults()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Secrets{cfg: cfg, commands: newCommands(cfg), uses: newRecorder(cfg), budgets: newBudgets()}
}

// Close records the uses that are queued, for as long as ctx allows. The error says how many were
// lost.
func (s *Secrets) Close(ctx context.Context) error { return s.uses.Close(ctx) }

func (s *Secrets) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// Set creates or replaces a secret of an account. A value that is not stored is read once, so that
// a source that does not work is refused here and not at the first use. KindInvalid for what is
// malformed and for a value that cannot be used; otherwise the kinds of Value.
func (s *Secrets) Set(ctx context.Context, account, name string, req secrets.Set) (secrets.Secret, error) {
	row, err := s.set(ctx, account, name, req)
	if err == nil {
		s.cfg.Changed(context.WithoutCancel(ctx), account, name)
		if req.ResetBudget {
			err = s.cfg.Rows.ResetSecretSpent(context.WithoutCancel(ctx), account, name)
		}
	}
	return row, err
}

func (s *Secrets) set(ctx context.Context, account, name string, req secrets.Set) (secrets.Secret, error) {
	if !api.ValidSecretName(name) {
		return secrets.Secret{}, invalidName(name)
	}
	if err := secrets.Check(req); err != nil {
		return secrets.Secret{}, err
	}
	now := s.now()
	row := secrets.Secret{
		Name: name, Account: account, Source: cmp.Or(req.Source, secrets.Stored), From: req.From, Command: req.Command,
		Signer: req.Signer, LifetimeMS: req.LifetimeMS, CreatedAt: now, UpdatedAt: now, Bindings: []secrets.Binding{},
		ForHeaders: req.ForHeaders, Metadata: req.Metadata, Version: req.Version, ID: newID(),
	}
	for i, b := range req.Bindings {
		b, err := normalBinding(b)
		if err != nil {
			return secrets.Secret{}, api.Errorf(api.KindInvalid, "secret: binding %d: %w", i+1, err).WithHint("%s", api.HintOf(err))
		}
		row.Bindings = append(row.Bindings, b)
	}
	for _, b := range req.Budgets {
		b.Per = cmp.Or(b.Per, secrets.PerTask)
		row.Budgets = append(row.Budgets, b)
	}
	if row.Source == secrets.Command && row.LifetimeMS == 0 {
		row.LifetimeMS = secrets.DefaultLifetime.Milliseconds()
	}
	// A caller that disappears must not leave it in doubt whether the row exists.
	store := context.WithoutCancel(ctx)
	switch row.Source {
	case secrets.Stored:
		return s.cfg.Rows.PutSecret(store, row, req.Value, secrets.MaxSecrets)
	case secrets.Command:
		err := s.commands.with(ctx, account, name, func(e *entry) error {
			value, err := s.commands.run(ctx, row)
			if err != nil {
				return err
			}
			if row, err = s.cfg.Rows.PutSecret(store, row, "", secrets.MaxSecrets); err == nil {
				e.keep(row, value, s.cfg.Now())
			}
			return err
		})
		if err != nil {
			return secrets.Secret{}, err
		}
		return row, nil
	}
	if _, err := s.read(row); err != nil {
		return secrets.Secret{}, err
	}
	return s.cfg.Rows.PutSecret(store, row, "", secrets.MaxSecrets)
}

func invalidName(name string) error {
	return api.Errorf(api.KindInvalid, "%.80q is not a valid name for a secret", name).
		WithHint(`use 1 to %d lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit; "uses" is reserved`, api.MaxSecretName)
}

// normalBinding returns a binding with its defaults, and its host in the form in which hosts are
// compared. It refuses methods and paths that a rule of an egress policy could not have: they are
// matched in the same way.
func normalBinding(b secrets.Binding) (secrets.Binding, error) {
	b = b.WithDefaults()
	host, err := policy.Normalize(b.Host)
	if err != nil {
		return b, err
	}
	b.Host = host
	rule := api.EgressRule{Action: api.EgressAllow, Host: b.Host, Methods: b.Methods, Paths: b.Paths}
	_, err = policy.Compile(api.EgressPolicy{Rules: []api.EgressRule{rule}}, nil)
	return b, err
}

// Remove removes a secret with its value, and returns what it was. The records of its uses stay.
func (s *Secrets) Remove(ctx context.Context, account, name string) (secrets.Secret, error) {
	row, err := s.cfg.Rows.RemoveSecret(context.WithoutCancel(ctx), account, name)
	if err == nil {
		s.commands.forget(account, name)
		s.cfg.Changed(context.WithoutCancel(ctx), account, name)
	}
	return row, err
}

// Get returns a secret of an account, with the uses that were recorded so far, and what they used of
// its budgets.
func (s *Secrets) Get(ctx context.Context, account, name string) (secrets.Secret, error) {
	if err := s.uses.flush(ctx); err != nil {
		return secrets.Secret{}, err
	}
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if err != nil || len(row.Budgets) == 0 {
		return row, err
	}
	spent, err := s.cfg.Rows.SecretSpent(ctx, account, name, s.now(), secrets.MaxSpentTasks)
	row.Spent = &spent
	return row, err
}

// Lookup returns a secret of an account for a request: its bindings are current, and its uses may be
// behind.
func (s *Secrets) Lookup(ctx context.Context, account, name string) (secrets.Secret, error) {
	return s.cfg.Rows.Secret(ctx, account, name)
}

// Page returns one page of the secrets of an account, the newest first.
func (s *Secrets) Page(ctx context.Context, account string, p api.PageRequest) ([]secrets.Secret, string, error) {
	if err := s.uses.flush(ctx); err != nil {
		return nil, "", err
	}
	return s.cfg.Rows.SecretPage(ctx, account, p)
}

// Uses returns one page of the uses of an account's secrets, the newest first.
func (s *Secrets) Uses(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error) {
	if err := s.uses.flush(ctx); err != nil {
		return nil, "", err
	}
	return s.cfg.Rows.SecretUsePage(ctx, account, f, p)
}
