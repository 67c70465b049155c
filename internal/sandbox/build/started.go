package build

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
)

// State is the state of a build that Start began.
type State string

const (
	Waiting  State = "waiting" // registered, not started
	Building State = "building"
	Ready    State = "ready"
	Failed   State = "error"
)

const (
	// maxStarted bounds the builds that are registered, running or remembered, of an account.
	maxStarted = 64
	// remembered is how long a build without a change is kept.
	remembered = time.Hour
	// Bounds of a log: what follows is dropped, and a last line says so.
	maxLines    = 20_000
	maxLogBytes = 4 << 20
)

// Status is what is known of a build that Start began.
type Status struct {
	// Name and Tags are as in a Request.
	ID, Name string
	Tags     []string
	State    State
	// Lines are those from the requested offset on.
	Lines []Logged
	// Err is why it failed, in FailedStep of the last stage; -1 is none of its steps.
	Err        error
	FailedStep int
}

// Logged is a line of a log with its time.
type Logged struct {
	Line
	At time.Time
}

// Started is a build that its caller asks about.
type Started struct {
	account string
	limits  api.Limits

	mu      sync.Mutex
	status  Status
	bytes   int
	changed time.Time
}

// Register returns the ID of a new build of the caller's account, which Start starts.
func (b *Builder) Register(ctx context.Context, name string, tags []string, limits api.Limits) (string, error) {
	if _, err := choice.TemplateNames(name, tags...); err != nil {
		return "", err
	}
	account := api.PrincipalOf(ctx).Account
	b.mu.Lock()
	defer b.mu.Unlock()
	n, oldest, since := 0, "", time.Time{}
	for id, s := range b.begun {
		s.mu.Lock()
		idle, changed := s.status.State != Building, s.changed
		s.mu.Unlock()
		if idle && time.Since(changed) > remembered {
			delete(b.begun, id)
			continue
		}
		if s.account != account {
			continue
		}
		if n++; idle && (oldest == "" || changed.Before(since)) {
			oldest, since = id, changed
		}
	}
	if n >= maxStarted {
		if oldest == "" {
			return "", api.Errorf(api.KindExhausted, "%d builds of the account are running, which is the maximum", n)
		}
		delete(b.begun, oldest)
	}
	id := string(api.NewSnapshotID())
	b.begun[id] = &Started{account: account, limits: limits, status: Status{ID: id, Name: name, Tags: tags, State: Waiting, FailedStep: -1}, changed: time.Now()}
	return id, nil
}

// find returns a build of the caller's account. b.mu is held.
func (b *Builder) find(ctx context.Context, id string) (*Started, error) {
	if s := b.begun[id]; s != nil && s.account == api.PrincipalOf(ctx).Account {
		return s, nil
	}
	return nil, api.Errorf(api.KindNotFound, "build %.80q not found", id)
}

// Start starts a registered build. It continues when ctx ends.
func (b *Builder) Start(ctx context.Context, id string, req Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.find(ctx, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State != Waiting {
		return api.Errorf(api.KindConflict, "build %s was already started", id)
	}
	if b.closed {
		return api.Errorf(api.KindUnavailable, "the daemon is stopping")
	}
	req.Name, req.Tags = s.status.Name, s.status.Tags
	if s.limits != (api.Limits{}) {
		req.Limits = s.limits
	}
	s.status.State = Building
	b.wg.Go(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(b.ctx, cancel)()
		step := -1
		_, err := b.Build(ctx, req, func(l Line) {
			if !l.Output {
				step = l.Step
			}
			s.log(l)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.status.State, s.changed = Ready, time.Now()
		if err != nil {
			s.status.State, s.status.Err, s.status.FailedStep = Failed, err, step
		}
	})
	return nil
}

func (s *Started) log(l Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := func() bool { return len(s.status.Lines) >= maxLines || s.bytes >= maxLogBytes }
	if full() {
		return
	}
	if s.bytes += len(l.Text); full() {
		l = Line{Step: l.Step, Text: "the log is full: the rest is dropped"}
	}
	s.status.Lines = append(s.status.Lines, Logged{l, time.Now().UTC()})
}

// Status returns the state of a build of the caller's account, with most most lines of its log from an offset on.
func (b *Builder) Status(ctx context.Context, id string, offset, most int) (Status, error) {
	b.mu.Lock()
	s, err := b.find(ctx, id)
	b.mu.Unlock()
	if err != nil {
		return Status{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.status
	from := min(max(offset, 0), len(out.Lines))
	out.Lines = append([]Logged(nil), out.Lines[from:min(from+most, len(out.Lines))]...)
	return out, nil
}
