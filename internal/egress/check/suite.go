package check

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// Result is what became of a row.
type Result string

const (
	Held          Result = "held"
	Broken        Result = "broken"
	NotApplicable Result = "not applicable"
	// NotTested is a row that says nothing: its control failed, or what it needs did not start.
	NotTested Result = "not tested"
)

// Phase is when a row was run.
type Phase string

const (
	Running  Phase = "running"
	Restored Phase = "restored" // after a pause to disk
	Forked   Phase = "forked"   // in a fork
	Adopted  Phase = "adopted"  // after the next daemon took over
)

// Attack is a row of the table.
type Attack struct {
	ID    string // such as "web/fronting-tls"
	Title string
	// Tries is what the attack does, Holds what must be true. Both are clauses for a table.
	Tries, Holds string
	// Again is true if it is run in every phase.
	Again bool
	// needs returns why the attack is not applicable, or "".
	needs func(s *stage) string
	// attack returns what it got and should not have, or "".
	attack func(ctx context.Context, s *stage, token string) string
	// control does the same with a thing that is allowed. It returns an error unless that works.
	control func(ctx context.Context, s *stage, token string) error
}

// Row is the result of an attack.
type Row struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Phase     Phase  `json:"phase"`
	Isolation string `json:"isolation"`
	Result    Result `json:"result"`
	// Reason says what a broken row has seen, or why a row is not applicable or was not tested.
	Reason string `json:"reason,omitempty"`
	TookMS int64  `json:"tookMs"`
}

// Report is the result of a run.
type Report struct {
	Rows []Row `json:"rows"`
}

// Held reports whether every row that is applicable held, and at least one did. It is false if one was not tested.
func (r Report) Held() bool {
	held := false
	for _, row := range r.Rows {
		if row.Result == Broken || row.Result == NotTested {
			return false
		}
		held = held || row.Result == Held
	}
	return held
}

// Config is what a run needs. Every field is required unless it says otherwise.
type Config struct {
	Client  *client.Client
	Servers *Servers
	// Isolation is a backend with the capability "egress".
	Isolation string
	// Probe is an executable with the mode of package probe: that of the guest, or hortus.
	Probe []byte
	// Restart replaces the daemon by another one, which adopts its sandboxes. Nil makes the
	// rows after an adoption not applicable.
	Restart func(context.Context) error
	// Weak has sandboxes with a policy that allows what many attacks try, so that tests of the
	// suite see them succeed.
	Weak bool
	// Progress is called after each row. It may be nil.
	Progress func(Row)
	// Timeout is the maximum wait for an answer that must come. Default: 20 s.
	Timeout time.Duration
}

// ttl ends the sandboxes of a run that was killed.
const ttl = 15 * time.Minute

// Run makes two sandboxes, runs every attack, and ends them. The policy of the sandboxes is the
// suite's own.
//
// An error means that nothing was tested. Errors: KindUnsupported if the backend cannot capture
// connections, KindUnavailable if the daemon does not reach the servers.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	r := &runner{cfg: cfg, tokens: map[string]int{}}
	defer r.close()
	policy := cfg.Servers.policy(cfg.Weak)
	for _, b := range []**probeSandbox{&r.sandbox, &r.other} {
		var err error
		if *b, err = r.create(ctx, &policy); err != nil {
			return Report{}, err
		}
	}
	if err := r.baseline(ctx); err != nil {
		return Report{}, err
	}
	r.phase(ctx, Running, r.sandbox)
	if cfg.Weak {
		return r.report, ctx.Err()
	}
	r.restored(ctx)
	r.forked(ctx)
	r.adopted(ctx)
	r.sweep()
	return r.report, ctx.Err()
}

// runner runs the attacks of one backend.
type runner struct {
	cfg            Config
	sandbox, other *probeSandbox
	sandboxes      []*probeSandbox // to kill
	report         Report
	tokens         map[string]int // the row of each attack's token
}

// create makes a sandbox with a probe in it.
func (r *runner) create(ctx context.Context, p *api.EgressPolicy) (*probeSandbox, error) {
	sb, err := r.cfg.Client.Sandboxes.Create(ctx, api.CreateSandbox{
		Isolation: r.cfg.Isolation, TTLMS: ttl.Milliseconds(), Egress: p, Labels: map[string]string{"purpose": "egress test"},
	})
	if err != nil {
		return nil, err
	}
	b := &probeSandbox{sandbox: sb, timeout: r.cfg.Timeout}
	r.sandboxes = append(r.sandboxes, b)
	return b, b.start(ctx, r.cfg.Probe)
}

// close kills the sandboxes.
func (r *runner) close() {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Timeout)
	defer cancel()
	for _, b := range r.sandboxes {
		_, _ = b.sandbox.Kill(ctx) // its time to live ends it otherwise
		b.sandbox.Close()
	}
}

// baseline refuses to test if what is allowed does not work.
func (r *runner) baseline(ctx context.Context) error {
	s := r.stage(r.sandbox)
	token := newToken()
	err := s.wantHTTP(ctx, s.srv.names.open, s.srv.web, token)
	if err == nil {
		return nil
	}
	return api.Errorf(api.KindUnavailable, "outgoing connections cannot be tested: the daemon does not reach %s port %d of this machine: %w",
		s.srv.names.open, s.srv.web, err).WithHint("Run it on the daemon's machine, with the setting egress.proxy empty; hortus egress log shows the daemon's reason.")
}

func (r *runner) stage(b *probeSandbox) *stage {
	return &stage{cfg: r.cfg, srv: r.cfg.Servers, sandbox: b, other: r.other}
}

// phase runs the attacks of a phase.
func (r *runner) phase(ctx context.Context, p Phase, b *probeSandbox) {
	for _, a := range Attacks() {
		if ctx.Err() != nil {
			return
		}
		if p == Running || a.Again {
			r.run(ctx, p, b, a)
		}
	}
}

// skip records that a phase is not applicable, or was not tested.
func (r *runner) skip(p Phase, result Result, reason string) {
	for _, a := range Attacks() {
		if a.Again {
			r.add(Row{ID: a.ID, Title: a.Title, Phase: p, Isolation: r.cfg.Isolation, Result: result, Reason: reason})
		}
	}
}

func (r *runner) add(row Row) {
	r.report.Rows = append(r.report.Rows, row)
	if r.cfg.Progress != nil {
		r.cfg.Progress(row)
	}
}

// run runs one attack and then its control.
func (r *runner) run(ctx context.Context, p Phase, b *probeSandbox, a Attack) {
	begin := time.Now()
	s := r.stage(b)
	row := Row{ID: a.ID, Title: a.Title, Phase: p, Isolation: r.cfg.Isolation, Result: Held}
	if a.needs != nil {
		row.Reason = a.needs(s)
	}
	if row.Reason != "" {
		row.Result = NotApplicable
		r.add(row)
		return
	}
	actx, cancel := context.WithTimeout(ctx, 3*r.cfg.Timeout)
	defer cancel()
	token := newToken()
	leak := a.attack(actx, s, token)
	switch got := s.srv.journal.find(token); {
	case got != "":
		row.Result, row.Reason = Broken, "a server got it: "+got
	case leak != "":
		row.Result, row.Reason = Broken, leak
	case s.failed != nil:
		row.Result, row.Reason = NotTested, s.failed.Error()
	default:
		r.tokens[token] = len(r.report.Rows)
		s := r.stage(b)
		if err := a.control(actx, s, newToken()); err != nil {
			row.Result, row.Reason = NotTested, "the control failed: "+err.Error()
		}
	}
	row.TookMS = time.Since(begin).Milliseconds()
	r.add(row)
}

// sweep finds tokens that have come late.
func (r *runner) sweep() {
	for token, i := range r.tokens {
		if got := r.cfg.Servers.journal.find(token); got != "" {
			r.report.Rows[i].Result, r.report.Rows[i].Reason = Broken, "a server got it later: "+got
		}
	}
}
