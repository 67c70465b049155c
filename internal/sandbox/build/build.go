package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/runner"
)

// Sandboxes makes sandboxes, reaches their guests and saves them, on behalf of the context's principal.
type Sandboxes interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Held(ctx context.Context, id api.SandboxID) error
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (runner.Stream, error)
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
	Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error)
	TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error)
	SnapshotPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
}

// Images has container images, on behalf of the context's principal.
type Images interface {
	Get(ctx context.Context, name string) (api.Image, error)
	Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error)
}

// Connections has the decisions about outgoing connections of sandboxes, the newest first, on behalf of the context's principal.
type Connections interface {
	EgressPage(ctx context.Context, f api.EgressFilter, p api.PageRequest) (rows []api.EgressDecision, next string, err error)
}

// Config is what a Builder needs. Images and Connections may be nil.
type Config struct {
	Sandboxes   Sandboxes
	Connections Connections
	Images      Images
	Files       *Files
	// Here reports whether a sandbox can start from a snapshot on this host; nil if all are here. Others are no cache, and are not removed.
	Here func(ctx context.Context, s api.Snapshot) bool
	// Contents names everything that the sandbox of a request starts from.
	Contents func(ctx context.Context, req api.CreateSandbox) (string, error)
}

// Builder builds templates. Its methods may be called from several goroutines.
type Builder struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	begun  map[string]*Started
}

// New makes a builder. [Builder.Close] ends it.
func New(cfg Config) *Builder {
	b := &Builder{cfg: cfg, begun: map[string]*Started{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Close cancels the builds that Start began, and waits for them.
func (b *Builder) Close(context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.wg.Wait()
	return nil
}

const (
	// maxLife is the maximum time that the sandbox of a stage lives.
	maxLife = 2 * time.Hour
	// Bounds of the snapshots of an account that are cache.
	maxCached      = 64
	maxCachedBytes = 16 << 30
)

// Build builds a template for the caller's account. log, which may be nil, receives its lines, one after the other.
// After an error there is no new template; a template that has the name keeps it.
//
// Errors: KindInvalid for a request that makes no sense, KindConflict for a step that fails; those
// of creating and saving sandboxes. The error names the step.
func (b *Builder) Build(ctx context.Context, req Request, log func(Line)) (s api.Snapshot, err error) {
	if log == nil {
		log = func(Line) {}
	}
	if err := req.check(); err != nil {
		return s, err
	}
	names, err := choice.TemplateNames(req.Name, req.Tags...)
	if err != nil {
		return s, err
	}
	for _, n := range names {
		if b.cfg.Images == nil {
			break
		}
		if _, err := b.cfg.Images.Get(ctx, n); err == nil {
			return s, api.Errorf(api.KindExists, "template %s is a container image", n).WithHint("choose another name")
		}
	}
	r := &work{Builder: b, req: req, names: names, log: log, cache: map[string]api.Snapshot{}, done: map[int]origin{}, account: api.PrincipalOf(ctx).Account}
	rows, err := r.snapshots(ctx)
	if err != nil {
		return s, err
	}
	for _, row := range slices.Backward(rows) { // the newest wins
		r.cache[row.BuildKey] = row
	}
	defer func() {
		if perr := r.prune(context.WithoutCancel(ctx)); err == nil && perr != nil {
			err = perr
		}
	}()
	for _, n := range req.Notes {
		r.say(-1, "%s", n)
	}
	return r.last(ctx)
}

// snapshots returns the account's ready snapshots of builds, the newest first.
func (r *work) snapshots(ctx context.Context) (out []api.Snapshot, err error) {
	page := func(ctx context.Context, p api.PageRequest) ([]api.Snapshot, string, error) {
		return r.cfg.Sandboxes.SnapshotPage(ctx, false, p)
	}
	for row, err := range api.Pages(ctx, page) {
		if err != nil {
			return nil, err
		}
		// An admin sees those of all accounts: nobody continues from another's files.
		if row.BuildKey != "" && row.Account == r.account && row.State == api.SnapshotReady && !row.Paused && (r.cfg.Here == nil || r.cfg.Here(ctx, row)) {
			out = append(out, row)
		}
	}
	return out, nil
}

// prune removes the oldest snapshots that are cache, as far as they are too many.
func (r *work) prune(ctx context.Context) error {
	rows, err := r.snapshots(ctx)
	var n, bytes int64
	for _, row := range rows {
		if row.Name != "" {
			continue
		}
		if n, bytes = n+1, bytes+row.Bytes; n > maxCached || bytes > maxCachedBytes {
			_, rerr := r.cfg.Sandboxes.RemoveSnapshot(ctx, row.ID)
			if api.KindOf(rerr) == api.KindNotFound {
				rerr = nil
			}
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// work is one build.
type work struct {
	*Builder
	req     Request
	names   []string // of the template
	log     func(Line)
	account string
	cache   map[string]api.Snapshot // by key
	done    map[int]origin          // results of stages
}

// origin is what a stage starts from, and what it results in.
type origin struct {
	template string
	key      string
	defaults api.CommandDefaults
	fresh    bool // not a snapshot of this build: isolation and limits are the request's
}

func hash(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%d %s\n", len(p), p)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// say logs a line that is not output.
func (r *work) say(step int, format string, args ...any) {
	r.log(Line{Step: step, Text: fmt.Sprintf(format, args...)})
}

// from resolves what a stage, or a COPY of the stage at index before, starts from.
func (r *work) from(ctx context.Context, name string, before int) (origin, error) {
	for i := before - 1; i >= 0; i-- {
		if s := r.req.Stages[i]; s.Name != "" && strings.EqualFold(s.Name, name) || name == fmt.Sprint(i) {
			return r.stage(ctx, i)
		}
	}
	switch {
	case name == "scratch":
		return origin{}, api.Errorf(api.KindUnsupported, "FROM scratch: a sandbox needs files to run commands").WithHint("start from an image or from %s", api.HostTemplate)
	case !api.ValidImageName(name) || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "."): // a path
		return origin{}, api.Errorf(api.KindInvalid, "FROM %.100q is not the name of a template or of an image", name).
			WithHint("hortus template create NAME --from-image ./image.tar gives an image of a file a name")
	}
	req := api.CreateSandbox{Template: name, Isolation: r.req.Isolation, Account: r.account}
	contents, err := r.cfg.Contents(ctx, req)
	if api.KindOf(err) == api.KindNotFound && r.cfg.Images != nil {
		img, perr := r.cfg.Images.Pull(ctx, api.PullImage{Reference: name}, func(step string) { r.say(-1, "pull image %s: %s", name, step) })
		switch {
		case perr == nil:
			req.Template = img.ID
			contents, err = r.cfg.Contents(ctx, req)
		case api.KindOf(perr) != api.KindDenied: // only admins pull: to others it is not here
			err = fmt.Errorf("FROM %.100q is not a template or image that is here: %w", name, perr)
		}
		if err != nil {
			err = api.Errorf(api.KindOf(err), "%w", err).WithHint("hortus template ls lists what is here; hortus template create NAME --from-image ./image.tar loads an image from a file")
		}
	}
	if err != nil {
		return origin{}, err
	}
	o := origin{template: req.Template, fresh: true}
	if b := r.cfg.Images; b != nil && req.Template != api.HostTemplate {
		img, err := b.Get(ctx, req.Template)
		if kind := api.KindOf(err); err != nil && kind != api.KindNotFound && kind != api.KindInvalid {
			return origin{}, err
		}
		o.defaults.Command, o.defaults.Entrypoint = img.Command, img.Entrypoint
	}
	o.key = hash("v3", contents, r.req.Isolation, fmt.Sprintf("%+v", r.req.Limits), fmt.Sprintf("%q %q", r.req.Shell, r.req.Dir))
	if r.req.PrivateTraffic {
		o.key = hash(o.key, "private")
	}
	if r.req.IDEPort != 0 {
		o.key = hash(o.key, fmt.Sprint("ide ", r.req.IDEPort))
	}
	return o, nil
}

// keys returns what a stage starts from, and the keys of that and after each step.
func (r *work) keys(ctx context.Context, n int) (base origin, out []string, err error) {
	if base, err = r.from(ctx, r.req.Stages[n].From, n); err != nil {
		return base, nil, err
	}
	key := base.key
	out = append(out, key)
	for _, s := range r.req.Stages[n].Steps {
		parts := []string{key, string(s.Op), fmt.Sprintf("%q %v %v %q %v %#v %#v", s.Args, s.Exec, s.Expand, s.User, s.Unpack, s.Here, s.Secrets)}
		if s.Mode != nil {
			parts = append(parts, fmt.Sprint(*s.Mode))
		}
		switch {
		case s.Op == OpCopy && s.From != "":
			o, err := r.from(ctx, s.From, n)
			if err != nil {
				return base, nil, failed(s, err)
			}
			parts = append(parts, o.key)
		case s.Op == OpCopy && len(s.Args) > 1:
			sum, err := r.digest(s)
			if err != nil {
				return base, nil, failed(s, err)
			}
			parts = append(parts, sum)
		}
		key = hash(parts...)
		out = append(out, key)
	}
	return base, out, nil
}

// digest identifies the files of a COPY. If a source has variables, it is all files.
func (r *work) digest(s Step) (string, error) {
	u, err := r.cfg.Files.open(r.account, s.Files)
	if err != nil {
		return "", err
	}
	defer u.data.Close()
	sources := slices.Clone(s.Args[:len(s.Args)-1])
	if s.Expand && slices.ContainsFunc(sources, func(a string) bool { return strings.ContainsAny(a, "$\\\"'") }) {
		sources = []string{"."}
	}
	found, err := u.match(sources)
	return digest(found), err
}

// failed names the step in an error.
func failed(s Step, err error) error {
	where := ""
	if s.Line > 0 {
		where = fmt.Sprintf("line %d, ", s.Line)
	}
	return fmt.Errorf("step failed (%s%.200s): %w", where, cmp.Or(s.Text, string(s.Op)), err)
}

// cached returns the last step of a stage that a snapshot has the result of.
func (r *work) cached(n int, keys []string) (int, api.Snapshot) {
	last := len(keys) - 1
	for i, s := range r.req.Stages[n].Steps {
		if s.Force {
			last = min(last, i)
		}
	}
	for i := last; i > 0 && !r.req.NoCache; i-- {
		if s, ok := r.cache[keys[i]]; ok {
			return i, s
		}
	}
	return 0, api.Snapshot{}
}

// stage builds a stage that is not the template, if that is not done, and returns its result.
func (r *work) stage(ctx context.Context, n int) (origin, error) {
	if o, ok := r.done[n]; ok {
		return o, nil
	}
	base, keys, err := r.keys(ctx, n)
	if err != nil {
		return base, err
	}
	o := base
	if len(keys) > 1 {
		s, err := r.steps(ctx, n, base, keys, func(m *machine, saved *api.Snapshot) (api.Snapshot, error) {
			if saved != nil {
				return *saved, nil
			}
			return m.save(ctx, keys[len(keys)-1], nil, "")
		})
		if err != nil {
			return base, err
		}
		o = ofSnapshot(s)
	}
	r.done[n] = o
	return o, nil
}

func ofSnapshot(s api.Snapshot) origin {
	o := origin{template: string(s.ID), key: s.BuildKey}
	if s.Defaults != nil {
		o.defaults = *s.Defaults
	}
	return o
}

// last builds the last stage, and makes it the template.
func (r *work) last(ctx context.Context) (api.Snapshot, error) {
	n := len(r.req.Stages) - 1
	base, keys, err := r.keys(ctx, n)
	if err != nil {
		return api.Snapshot{}, err
	}
	if r.req.Start != "" || len(keys) == 1 {
		keys = append(keys, hash(keys[len(keys)-1], "start", r.req.Start, r.req.Ready))
	}
	final := keys[len(keys)-1]
	if i, s := r.cached(n, keys); i > 0 && s.BuildKey == final && r.isTemplate(s) {
		s, err := r.tag(ctx, s)
		if err == nil {
			r.say(-1, "every step is cached, and template %s is up to date", strings.Join(r.names, ", "))
		}
		if api.KindOf(err) != api.KindNotFound { // removed since
			return s, err
		}
		delete(r.cache, final)
	}
	return r.steps(ctx, n, base, keys, func(m *machine, saved *api.Snapshot) (api.Snapshot, error) {
		if r.req.Start != "" && (saved == nil || saved.BuildKey != final) {
			r.say(len(r.req.Stages[n].Steps), "start: %s", r.req.Start)
			if err := m.start(ctx); err != nil {
				return api.Snapshot{}, err
			}
		}
		r.say(len(r.req.Stages[n].Steps), "save template %s", strings.Join(r.names, ", "))
		return m.save(ctx, final, &r.req, startScript(r.req))
	})
}

// isTemplate reports whether a snapshot is the template with the name, with whatever tag.
func (r *work) isTemplate(s api.Snapshot) bool {
	have, _ := api.SplitTemplateName(s.Name)
	want, _ := api.SplitTemplateName(r.req.Name)
	return have == want
}

// tag gives a snapshot of the template the names that it lacks.
func (r *work) tag(ctx context.Context, s api.Snapshot) (api.Snapshot, error) {
	req := api.TagSnapshot{}
	for _, name := range r.names {
		if _, tag := api.SplitTemplateName(name); !s.HasName(name) {
			req.Tags = append(req.Tags, tag)
		}
	}
	if len(req.Tags) == 0 {
		return s, nil
	}
	return r.cfg.Sandboxes.TagSnapshot(ctx, s.ID, req)
}

// steps runs the steps of a stage that are not cached, and then finish, with the last snapshot if nothing was changed after it.
func (r *work) steps(ctx context.Context, n int, base origin, keys []string, finish func(*machine, *api.Snapshot) (api.Snapshot, error)) (_ api.Snapshot, err error) {
	stage := r.req.Stages[n]
	at, snapshot := r.cached(n, keys)
	if at > 0 && n < len(r.req.Stages)-1 && at == len(keys)-1 {
		r.say(-1, "stage %s is cached", cmp.Or(stage.Name, fmt.Sprint(n)))
		return snapshot, nil
	}
	from, saved := base, (*api.Snapshot)(nil)
	if at > 0 {
		from, saved = ofSnapshot(snapshot), &snapshot
	}
	m, err := r.open(ctx, from, nil)
	if kind := api.KindOf(err); err != nil && at > 0 && (kind == api.KindConflict || kind == api.KindNotFound) {
		// It was saved by another build of Hortus, or removed.
		delete(r.cache, snapshot.BuildKey)
		if _, err := r.cfg.Sandboxes.RemoveSnapshot(ctx, snapshot.ID); err != nil && api.KindOf(err) != api.KindNotFound {
			return api.Snapshot{}, err
		}
		return r.steps(ctx, n, base, keys, finish)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	step := func(i int) int { // its index in the log
		if n == len(r.req.Stages)-1 {
			return i
		}
		return -1
	}
	for i, s := range stage.Steps {
		text := fmt.Sprintf("[%d/%d] ", i+1, len(stage.Steps))
		if i < at {
			text += "cached: " // before what may be cut off
		}
		text += cmp.Or(s.Text, string(s.Op)+" "+strings.Join(s.Args, " "))
		if stage.Name != "" {
			text = "[" + stage.Name + "]" + text
		}
		if i < at {
			r.say(step(i), "%s", text)
			if s.Op == OpArg || s.Op == OpShell {
				err = m.do(ctx, s, nil)
			}
		} else {
			r.say(step(i), "%s", text)
			out := func(line string) { r.log(Line{step(i), line, true}) }
			if len(s.Secrets) == 0 {
				saved, err = nil, m.do(ctx, s, out)
			} else {
				if saved == nil && i > 0 {
					saved, err = m.keep(ctx, keys[i])
				}
				from := base
				if saved != nil {
					from = ofSnapshot(*saved)
				}
				if err == nil {
					err = m.withSecrets(ctx, from, s, out)
				}
			}
		}
		// Also after the last step: the template is removed when another build replaces it.
		if err == nil && i >= at && (s.Op == OpRun || s.Op == OpCopy || m.unknown()) {
			saved, err = m.keep(ctx, keys[i+1])
			if err == nil && (len(s.Secrets) > 0 || m.unknown()) {
				err = m.restart(ctx, ofSnapshot(*saved), nil) // the grants of the old one end with it
			}
		}
		if err != nil {
			return api.Snapshot{}, failed(s, err)
		}
	}
	return finish(m, saved)
}

// machine is the sandbox of a stage, and what its next step has.
type machine struct {
	work *work
	row  api.Sandbox
	// guest is a client of the sandbox's guest.
	guest    guest
	defaults api.CommandDefaults
	args     map[string]string
	shell    []string
	user     string // the current user
}

// open starts the sandbox of a stage, which may use secrets.
func (r *work) open(ctx context.Context, from origin, grants []api.SecretGrant) (*machine, error) {
	life := maxLife
	if most := api.PrincipalOf(ctx).Ceilings.TTLMS; most > 0 {
		life = min(life, time.Duration(most)*time.Millisecond)
	}
	req := api.CreateSandbox{Template: from.template, TTLMS: life.Milliseconds(), Egress: r.req.Egress, PrivateTraffic: r.req.PrivateTraffic, IDEPort: r.req.IDEPort, Secrets: grants, Labels: map[string]string{"template": r.req.Name}}
	if from.fresh {
		req.Isolation, req.Limits = r.req.Isolation, r.req.Limits
	}
	row, err := r.cfg.Sandboxes.Create(ctx, req)
	if err != nil {
		return nil, err
	}
	m := &machine{work: r, row: row, defaults: from.defaults, args: map[string]string{}, shell: r.req.Shell}
	if from.fresh && row.Defaults != nil {
		m.defaults = *row.Defaults // those of the template that the build starts from
	}
	m.defaults.Env = maps.Clone(m.defaults.Env)
	if m.defaults.Env == nil {
		m.defaults.Env = map[string]string{}
	}
	m.user = cmp.Or(m.defaults.User, row.Identities[0])
	m.guest = newGuest(r.cfg.Sandboxes, row.ID)
	// It is of no use to another daemon.
	if err := r.cfg.Sandboxes.Held(ctx, row.ID); err != nil {
		return nil, errors.Join(err, m.close(ctx))
	}
	return m, nil
}

// close ends the sandbox, if there is one.
func (m *machine) close(ctx context.Context) error {
	if m.row.ID == "" {
		return nil
	}
	_, _, err := m.work.cfg.Sandboxes.Kill(context.WithoutCancel(ctx), m.row.ID)
	m.row.ID = ""
	return errors.Join(m.guest.Close(), err)
}

// restart ends the sandbox, and continues in another one that may use secrets.
func (m *machine) restart(ctx context.Context, from origin, grants []api.SecretGrant) error {
	if err := m.close(ctx); err != nil {
		return err
	}
	next, err := m.work.open(ctx, from, grants)
	if err == nil {
		m.row, m.guest = next.row, next.guest
	}
	return err
}

// keep saves the sandbox for the cache.
func (m *machine) keep(ctx context.Context, key string) (*api.Snapshot, error) {
	s, err := m.save(ctx, key, nil, "")
	if err != nil {
		return nil, err
	}
	m.work.cache[key] = s
	return &s, nil
}

// save saves the sandbox under a key, and as the template of a request, which may be nil.
func (m *machine) save(ctx context.Context, key string, as *Request, start string) (api.Snapshot, error) {
	d := m.defaults
	d.Env = maps.Clone(d.Env)
	req := api.CreateSnapshot{Build: &api.BuildSnapshot{Key: key, Defaults: d, Start: start}}
	if as != nil {
		req.Name, req.Tags = as.Name, as.Tags
	}
	return m.work.cfg.Sandboxes.Snapshot(ctx, m.row.ID, req)
}
