package replay

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/platform/redact"
)

// PlayerConfig is what a player is made of.
type PlayerConfig struct {
	Recording *Recording
	// Name is what the player is chosen and shown by, for example
	// "replay:/tmp/run.jsonl".
	Name string
	// Secrets are those that a recorder would receive here.
	Secrets []string
}

// Player is a model that answers from a recording. Equal requests get the
// recorded answers in their order. A request that is not in the recording fails
// with KindNotFound, which says how it differs from the nearest one.
type Player struct {
	rec    *Recording
	name   string
	redact *redact.Redactor

	mu    sync.Mutex
	keys  []string         // of all exchanges: the fingerprint of the untimed request
	by    map[string][]int // the exchanges of a key, those not given yet
	asked int
	given int
}

var _ model.Model = (*Player)(nil)

// NewPlayer makes a player at the beginning of a recording.
func NewPlayer(cfg PlayerConfig) *Player {
	p := &Player{rec: cfg.Recording, name: cfg.Name, redact: redact.New(cfg.Secrets), by: map[string][]int{}}
	for i, e := range cfg.Recording.exchanges {
		key := fingerprint(untimed(e.Request))
		p.keys, p.by[key] = append(p.keys, key), append(p.by[key], i)
	}
	return p
}

// Name implements model.Model.
func (p *Player) Name() string { return p.name }

// ReadsImages reports whether a recorded model did.
func (p *Player) ReadsImages() bool {
	for _, e := range p.rec.exchanges {
		for _, m := range e.Request.Messages {
			if m.Images > 0 {
				return true
			}
		}
	}
	return false
}

// Models returns a model for each name in the recording's header, by what each was
// for. All answer from this player; they differ in the name that is shown.
func (p *Player) Models() map[string]model.Model {
	if len(p.rec.models) == 0 {
		return nil
	}
	out := make(map[string]model.Model, len(p.rec.models))
	for role, name := range p.rec.models {
		out[role] = voice{p, Prefix + name}
	}
	return out
}

// Prefix begins the name of every model that is replayed.
const Prefix = "replay:"

// voice is a player under the name of one of the recorded models.
type voice struct {
	*Player
	name string
}

// Name implements model.Model.
func (v voice) Name() string { return v.name }

// Generate implements model.Model. Recorded waits between tries are not waited.
func (p *Player) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	q := wireRequest(req)
	scrubRequest(&q, func(s *string) { *s, _ = p.redact.Redact(strings.ToValidUTF8(*s, "\uFFFD")) })
	e, err := p.take(q)
	if err != nil {
		return model.Response{}, err
	}
	for _, d := range e.Deltas {
		if deltas != nil {
			deltas(d.model())
		}
	}
	var resp model.Response
	if r := e.Response; r != nil {
		resp = model.Response{Message: r.Message.model(), Stop: r.Stop, Usage: r.Usage}
	}
	if e.Error != nil {
		return resp, e.Error.err()
	}
	return resp, nil
}

// take returns the next answer to a request.
func (p *Player) take(q request) (*exchange, error) {
	key := fingerprint(untimed(q))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	all, known := p.by[key]
	if len(all) > 0 {
		p.by[key] = all[1:]
		p.given++
		return &p.rec.exchanges[all[0]], nil
	}
	what := fmt.Sprintf("request %d%s", p.asked, purpose(q))
	if known {
		n := 0
		for i := range p.rec.exchanges {
			if p.keys[i] == key {
				n++
			}
		}
		return nil, p.missing("%s is in the recording only %s and was requested again", what, times(n))
	}
	e, how := p.nearest(q)
	if e == nil {
		return nil, p.missing("%s not found: the recording is empty", what)
	}
	return nil, p.missing("%s not found in the recording; the closest match is exchange %d, but %s", what, e.N, how)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func purpose(q request) string {
	if q.Output == nil {
		return ""
	}
	return " (schema " + api.Clip(q.Output.Name, 64) + ")"
}

// missing is the error of a request without an answer.
func (p *Player) missing(format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + fmt.Sprintf(" (%s: %d of %d exchanges used)", p.name, p.given, p.rec.Len())
	if p.rec.Note != "" {
		text += "; " + p.rec.Note
	}
	return api.Errorf(api.KindNotFound, "%s", text).
		WithHint("A replay repeats one run: use the same request, limits, isolation and version of Hortus, or record again.")
}
