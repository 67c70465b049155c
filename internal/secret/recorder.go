package secret

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/audit"
	"hortus.dev/internal/platform/records"
)

// Limits are the maximum rates, in numbers a second, with bursts. Zero fields mean the defaults.
type Limits struct {
	// Sandbox limits the records of a sandbox, and apart from them those of its refused uses, so
	// that a flood of these does not hide a use (default 100, 2000).
	Sandbox, SandboxBurst int
	// Alarms limits the warnings in the log about a sandbox (default 1, 20).
	Alarms, AlarmsBurst int
}

func (l Limits) orDefaults() Limits {
	return Limits{cmp.Or(l.Sandbox, 100), cmp.Or(l.SandboxBurst, 2000), cmp.Or(l.Alarms, 1), cmp.Or(l.AlarmsBurst, 20)}
}

// Maximum sizes of what is recorded of one use, in bytes.
const (
	maxText     = 1 << 10
	maxWord     = 64
	maxCommands = 8
	maxCommand  = 256
)

// flushWait is the maximum time that a list waits for records that are not stored yet.
const flushWait = 5 * time.Second

// peer is whose use was not recorded.
type peer struct {
	account, secret string
	sandbox         api.SandboxID
	task            api.TaskID
}

// kindOfUse has a limit of its own.
type kindOfUse struct {
	sandbox api.SandboxID
	refused bool // or broken off
}

func peerOf(u secrets.Use) peer { return peer{u.Account, u.Secret, u.Sandbox, u.Task} }

// recorder records uses, and limits their records and the warnings.
type recorder struct {
	*records.Writer[secrets.Use, peer]
	records    *records.Limits[kindOfUse]
	alarms     *records.Limits[api.SandboxID]
	suppressed atomic.Int64 // warnings
}

func newRecorder(cfg Config) *recorder {
	l := cfg.Limits
	return &recorder{
		records: records.NewLimits[kindOfUse](float64(l.Sandbox), l.SandboxBurst),
		alarms:  records.NewLimits[api.SandboxID](float64(l.Alarms), l.AlarmsBurst),
		Writer: records.New(records.Config[secrets.Use, peer]{
			What: "uses of secrets", Insert: cfg.Rows.InsertSecretUses, Owner: peerOf,
			Weight: func(u secrets.Use) int { return max(u.Missed, 1) },
			Gap: func(p peer, n int, at time.Time) secrets.Use {
				return secrets.Use{At: at.UTC(), Secret: p.secret, Account: p.account, Sandbox: p.sandbox, Task: p.task, Missed: n,
					Refused: fmt.Sprintf("%d uses were not recorded: too many at once, or the store failed", n)}
			},
			Queue: cfg.Queue, Now: cfg.Now, Logger: cfg.Logger,
		}),
	}
}

// Record records a use of a secret, or a placeholder where it may not be, which is an alarm. It does
// not block. A use without a time gets the present one. What cannot be recorded is counted, and the
// number is a record of its own.
func (s *Secrets) Record(ctx context.Context, u secrets.Use) {
	r := s.uses
	u, now := sanitize(u), s.now()
	if u.Seq = 0; u.At.IsZero() {
		u.At = now
	}
	s.cfg.Count(u)
	if u.Alarm() {
		if r.alarms.Allow(u.Sandbox, now) {
			message := "a secret was not sent: its placeholder is where it may not be"
			if u.Broken {
				message = "answers of a server that a secret is bound to break off: a program may be trying to read the secret from them"
			}
			s.cfg.Logger.WarnContext(ctx, message, "secret", u.Secret, "account", u.Account,
				"sandbox", u.Sandbox, "task", u.Task, "request", u.Method+" "+u.Scheme+"://"+u.Host+u.Path, "reason", u.Refused, "suppressed", r.suppressed.Swap(0))
		} else {
			r.suppressed.Add(1)
		}
	}
	if r.records.Allow(kindOfUse{u.Sandbox, u.Refused != "" || u.Broken}, now) {
		r.Add(u)
	} else {
		r.Miss(u)
	}
}

// sanitize returns a use whose text can be stored and shown on a terminal. The query of a path is
// removed: it may have other credentials.
func sanitize(u secrets.Use) secrets.Use {
	if i := strings.IndexAny(u.Path, "?#"); i >= 0 {
		u.Path = u.Path[:i]
	}
	if u.Usage != nil {
		usage := *u.Usage
		u.Usage = &usage
		u.Usage.Model = audit.Text(usage.Model, maxText)
	}
	for _, word := range []*string{&u.Secret, &u.Scheme, &u.Method, &u.Budget, &u.Purpose, &u.For} {
		*word = audit.Text(*word, maxWord)
	}
	for _, text := range []*string{&u.Refused, &u.Host, &u.Path} {
		*text = audit.Text(*text, maxText)
	}
	if u.Commands != nil {
		commands := make([]string, min(len(u.Commands), maxCommands))
		for i := range commands {
			commands[i] = audit.Text(u.Commands[i], maxCommand)
		}
		u.Commands = commands
	}
	return u
}

// flush returns when what was recorded before is stored, or with the error of ctx. If the store
// fails, it returns after flushWait: a list of secrets does not wait for the records.
func (r *recorder) flush(ctx context.Context) error {
	late, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	if err := r.Flush(late); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}
