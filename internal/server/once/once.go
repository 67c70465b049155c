package once

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Rows is where keys are kept.
type Rows interface {
	// BeginOnce stores that a request is being answered, unless its key is taken:
	// then it gives the row that is there, and false. What has expired is removed
	// first, and of the account's answers the oldest beyond most.
	BeginOnce(ctx context.Context, o store.Once, most int) (store.Once, bool, error)
	// EndOnce stores the answer.
	EndOnce(ctx context.Context, o store.Once) error
	// ForgetOnce frees a key.
	ForgetOnce(ctx context.Context, account, key string) error
}

// Config is what a Keeper needs. Only Rows is required.
type Config struct {
	Rows Rows
	// Keep is how long an answer is kept; 0 means DefaultKeep.
	Keep time.Duration
	// Most is how many are kept of an account; 0 means DefaultMost.
	Most   int
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	// DefaultKeep is how long an answer is kept.
	DefaultKeep = 24 * time.Hour
	// DefaultMost bounds the answers that are kept of one account.
	DefaultMost = 4096
	// MaxAnswer is the longest answer that is kept, in bytes.
	MaxAnswer = 128 << 10
	// storeTimeout bounds the storing of an end, which the caller cannot interrupt.
	storeTimeout = 20 * time.Second
)

// Keeper executes a request at most once. Its methods may be called from several goroutines.
type Keeper struct {
	cfg Config

	mu     sync.Mutex
	flying map[id]*flight
}

type id struct{ account, key string }

// flight is a request in progress in this daemon.
type flight struct {
	request []byte
	done    chan struct{}
}

// New makes a keeper.
func New(cfg Config) *Keeper {
	cfg.Keep = cmp.Or(cfg.Keep, DefaultKeep)
	cfg.Most = cmp.Or(cfg.Most, DefaultMost)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Keeper{cfg: cfg, flying: map[id]*flight{}}
}

// Do returns the answer that is kept under an account's key, and true; or has do make
// one, which is kept if do says so, and gives that. request tells requests apart. While
// one is being worked on, others with its key wait for it.
//
// Errors: KindInvalid for a key that was used for another request, KindConflict for
// one whose outcome nobody knows, or whose answer was too long to keep.
func (k *Keeper) Do(ctx context.Context, account, key string, request []byte, do func() (answer []byte, keep bool)) ([]byte, bool, error) {
	at := id{account, key}
	f := &flight{request: request, done: make(chan struct{})}
	for {
		k.mu.Lock()
		other := k.flying[at]
		if other == nil {
			k.flying[at] = f
			k.mu.Unlock()
			break
		}
		k.mu.Unlock()
		if !bytes.Equal(other.request, request) {
			return nil, false, reused(key)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	defer func() {
		k.mu.Lock()
		delete(k.flying, at)
		k.mu.Unlock()
		close(f.done)
	}()
	return k.do(ctx, at, request, do)
}

func (k *Keeper) do(ctx context.Context, at id, request []byte, do func() ([]byte, bool)) ([]byte, bool, error) {
	now := k.cfg.Now().UTC()
	row := store.Once{Account: at.account, Key: at.key, Request: request, CreatedAt: now, ExpiresAt: now.Add(k.cfg.Keep)}
	have, begun, err := k.cfg.Rows.BeginOnce(ctx, row, k.cfg.Most)
	if err != nil {
		return nil, false, err
	}
	if !begun {
		return replay(have, request)
	}
	answer, keep := do()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if keep {
		row.Done = true
		if len(answer) <= MaxAnswer {
			row.Answer = answer
		}
		err = k.cfg.Rows.EndOnce(ctx, row)
	} else {
		err = k.cfg.Rows.ForgetOnce(ctx, at.account, at.key)
	}
	if err != nil {
		// What was done is done; anyone who asks again is informed that it is not known.
		k.cfg.Logger.Error("cannot store the response for an idempotency key", "account", at.account, "error", err)
	}
	return answer, false, nil
}

// replay returns a stored answer.
func replay(have store.Once, request []byte) ([]byte, bool, error) {
	switch {
	case !bytes.Equal(have.Request, request):
		return nil, false, reused(have.Key)
	case !have.Done:
		return nil, false, api.Errorf(api.KindConflict, "the daemon ended during the request with the idempotency key %.64q: the outcome is unknown", have.Key).
			WithHint("check whether the request took effect, then retry with another key")
	case have.Answer == nil:
		return nil, false, api.Errorf(api.KindConflict, "the request with the idempotency key %.64q succeeded, but its response was too large to store", have.Key).
			WithHint("list the created resources")
	}
	return have.Answer, true, nil
}

func reused(key string) error {
	return api.Errorf(api.KindInvalid, "the idempotency key %.64q was already used for another request", key).
		WithHint("use a new key for a new request")
}
