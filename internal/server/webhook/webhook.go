package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
)

// Bounds of an account's webhooks.
const (
	maxWebhooks   = 20
	maxName       = 200
	maxURL        = 2000
	maxSecret     = 512
	maxDeliveries = 100 // that are kept of a webhook
)

// Rows keeps the rows; store.Webhooks has the contract.
type Rows interface {
	InsertWebhook(ctx context.Context, w api.Webhook, secret string, most int) error
	UpdateWebhook(ctx context.Context, w api.Webhook, secret string) error
	Webhook(ctx context.Context, account, id string) (api.Webhook, error)
	WebhooksOf(ctx context.Context, account string) ([]api.Webhook, error)
	EnabledWebhooks(ctx context.Context) ([]api.Webhook, error)
	WebhookSecret(ctx context.Context, account, id string) (string, error)
	RemoveWebhook(ctx context.Context, account, id string) error
	PutDelivery(ctx context.Context, d api.WebhookDelivery, most int) error
	Deliveries(ctx context.Context, account, webhook string, limit int) ([]api.WebhookDelivery, error)
	LifecycleEvents(ctx context.Context, f api.LifecycleFilter) ([]api.LifecycleEvent, error)
	NewestLifecycle(ctx context.Context) (int64, error)
}

// Config is what webhooks work with. Rows, Dial and Encode are required.
type Config struct {
	Rows Rows
	// Dial connects to a host, if that is allowed.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Roots are the authorities that receivers may have; nil means those of the host.
	Roots *x509.CertPool
	// Encode returns the body of a request.
	Encode func(api.LifecycleEvent) ([]byte, error)
	// Lead reports whether this daemon delivers for all that share the rows, and is asked again and again; nil if there are no others.
	Lead func(context.Context) (bool, error)
	// Timeout is the maximum time of an attempt (default 10 s).
	Timeout time.Duration
	// Now and After are the clock; nil means that of package time.
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
	Logger *slog.Logger
}

// Webhooks are the webhooks of a daemon. Make them with New, and close them.
type Webhooks struct {
	cfg    Config
	sender *sender
}

// New opens the webhooks of a daemon, and begins to deliver.
func New(cfg Config) *Webhooks {
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Webhooks{cfg, startSender(cfg)}
}

// Close ends all attempts, which the next daemon makes again, and waits for them.
func (s *Webhooks) Close(context.Context) error {
	s.sender.stop()
	return nil
}

// Wake makes known that an event was stored. It does not block.
func (s *Webhooks) Wake() { s.sender.wakeUp() }

// Create stores a webhook. It receives what happens from now on.
func (s *Webhooks) Create(ctx context.Context, w api.Webhook, secret string) (api.Webhook, error) {
	w.ID, w.Account, w.CreatedAt = newID(), api.PrincipalOf(ctx).Account, s.cfg.Now().UTC().Truncate(time.Microsecond)
	if secret == "" {
		return w, api.Errorf(api.KindInvalid, "a webhook needs a secret that its deliveries are signed with").WithHint("set signatureSecret")
	}
	if err := check(&w, secret); err != nil {
		return w, err
	}
	return w, s.cfg.Rows.InsertWebhook(ctx, w, secret, maxWebhooks)
}

// Update changes a webhook. An empty secret leaves the one that it has.
func (s *Webhooks) Update(ctx context.Context, id string, change func(*api.Webhook), secret string) (api.Webhook, error) {
	w, err := s.Get(ctx, id)
	if err != nil {
		return w, err
	}
	change(&w)
	if err := check(&w, secret); err != nil {
		return w, err
	}
	err = s.cfg.Rows.UpdateWebhook(ctx, w, secret)
	s.Wake()
	return w, err
}

// Get returns a webhook.
func (s *Webhooks) Get(ctx context.Context, id string) (api.Webhook, error) {
	return s.cfg.Rows.Webhook(ctx, api.PrincipalOf(ctx).Account, id)
}

// List lists the webhooks of the account, the oldest first.
func (s *Webhooks) List(ctx context.Context) ([]api.Webhook, error) {
	return s.cfg.Rows.WebhooksOf(ctx, api.PrincipalOf(ctx).Account)
}

// Remove removes a webhook.
func (s *Webhooks) Remove(ctx context.Context, id string) (api.Webhook, error) {
	w, err := s.Get(ctx, id)
	if err != nil {
		return w, err
	}
	return w, s.cfg.Rows.RemoveWebhook(ctx, w.Account, id)
}

// Deliveries lists the last attempts of a webhook, the newest first.
func (s *Webhooks) Deliveries(ctx context.Context, id string) ([]api.WebhookDelivery, error) {
	w, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.cfg.Rows.Deliveries(ctx, w.Account, id, maxDeliveries)
}

// Events lists lifecycle events of the account.
func (s *Webhooks) Events(ctx context.Context, f api.LifecycleFilter) ([]api.LifecycleEvent, error) {
	f.Account = api.PrincipalOf(ctx).Account
	return s.cfg.Rows.LifecycleEvents(ctx, f)
}

// check refuses what a webhook cannot have, and sorts its types.
func check(w *api.Webhook, secret string) error {
	if w.Name == "" || len(w.Name) > maxName || !utf8.ValidString(w.Name) {
		return api.Errorf(api.KindInvalid, "the name of a webhook has 1 to %d bytes of text", maxName)
	}
	if len(secret) > maxSecret {
		return api.Errorf(api.KindInvalid, "the secret of a webhook has at most %d bytes", maxSecret)
	}
	u, err := url.Parse(w.URL)
	if err != nil || len(w.URL) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return api.Errorf(api.KindInvalid, "%.100q cannot be the address of a webhook", w.URL).
			WithHint("use https://HOST/PATH, without a user and a fragment; the host must be public")
	}
	w.Events = slices.Compact(slices.Sorted(slices.Values(w.Events)))
	if len(w.Events) == 0 {
		return api.Errorf(api.KindInvalid, "a webhook needs at least one type of events")
	}
	for _, e := range w.Events {
		if !slices.Contains(api.LifecycleTypes(), e) {
			return api.Errorf(api.KindInvalid, "%.60q is not a type of lifecycle events", e)
		}
	}
	return nil
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
