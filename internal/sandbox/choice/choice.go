package choice

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Auto is the isolation that leaves the choice to Hortus.
const Auto = api.AutoIsolation

// MinMemory is the least memory that a sandbox can be given: below it the guest
// itself could not run.
const MinMemory = 16 << 20

// MinProcesses is the least limit of processes: the kernel holds a guest to the
// limit of its commands too, and a guest that cannot have one more thread when it
// needs one dies. A smaller limit could be accepted but not kept.
const MinProcesses = 64

// MaxProcesses is the largest limit of processes: Linux has no more identifiers of processes, and its control groups accept no larger
// number.
const MaxProcesses = 4 << 20

// Chooser chooses among the backends of a build. It remembers what each that starts found on this
// host, because probing boots a guest. A backend remembers by itself that a boot failed.
type Chooser struct {
	backends []sandbox.Backend

	mu      sync.Mutex
	reports map[string]api.BackendReport
}

// New makes a Chooser among backends in the order of their strength.
func New(backends []sandbox.Backend) *Chooser {
	return &Chooser{backends: backends, reports: map[string]api.BackendReport{}}
}

// Report probes a backend, until it starts sandboxes here: what is missing may be installed meanwhile.
func (c *Chooser) Report(ctx context.Context, b sandbox.Backend) api.BackendReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.reports[b.Name()]; ok {
		return r
	}
	r := b.Probe(ctx)
	// A probe that the caller interrupted says nothing about the host.
	if _, starts := r.Has(api.CapStart); starts && ctx.Err() == nil && !b.Capabilities().Remote {
		c.reports[b.Name()] = r
	}
	return r
}

// Reports probes every backend, in the order of their strength.
func (c *Chooser) Reports(ctx context.Context) []api.BackendReport {
	out := make([]api.BackendReport, 0, len(c.backends))
	for _, b := range c.backends {
		out = append(out, c.Report(ctx, b))
	}
	return out
}

// Choose is Within for a request that names an isolation, or none, with a key that may use all.
func (c *Chooser) Choose(ctx context.Context, isolation string, needs ...api.Capability) (sandbox.Backend, api.BackendReport, string, error) {
	return c.Within(ctx, Wanted{Isolation: isolation}, api.KeyIsolation{}, needs...)
}

// Within finds the backend that is wanted: by its name, or for "" and "auto" the strongest that is fit for untrusted code and has
// what is needed. The sentence says why that one. What the key may not use is refused, and left out of the choice.
func (c *Chooser) Within(ctx context.Context, want Wanted, key api.KeyIsolation, needs ...api.Capability) (sandbox.Backend, api.BackendReport, string, error) {
	if want.auto() {
		return c.strongest(ctx, key, needs)
	}
	b, err := c.named(want.Isolation)
	if err == nil {
		err = key.Check(b.Name(), true)
	}
	if err != nil {
		return nil, api.BackendReport{}, "", want.Explain(err)
	}
	report := c.Report(ctx, b)
	if a, ok := report.Has(api.CapStart); !ok {
		return nil, report, "", want.Explain(Unisolated(ctx, b.Name(), a))
	}
	_, isolates := report.Has(api.CapIsolated)
	if err := key.Check(b.Name(), isolates); err != nil {
		return nil, report, "", want.Explain(err)
	}
	return b, report, want.why(), nil
}

// Known refuses what names no backend of this build. "" and "auto" are known.
func (c *Chooser) Known(isolation string) error {
	if (Wanted{Isolation: isolation}).auto() {
		return nil
	}
	_, err := c.named(isolation)
	return err
}

// named finds a backend.
func (c *Chooser) named(isolation string) (sandbox.Backend, error) {
	var names []string
	for _, b := range c.backends {
		if b.Name() == isolation {
			return b, nil
		}
		names = append(names, b.Name())
	}
	return nil, api.Errorf(api.KindInvalid, "unknown isolation %.64q", isolation).
		WithHint("available: auto, %s", strings.Join(names, ", "))
}

// Advise leaves in the hint of an error, "use --isolation NAME or NAME", the backends that start here. Backends do not know that of
// each other.
func (c *Chooser) Advise(ctx context.Context, err error) error {
	list, ok := strings.CutPrefix(api.HintOf(err), useIsolation)
	if !ok {
		return err
	}
	names := strings.Split(list, " or ")
	var ready []string
	for _, name := range names {
		b, nerr := c.named(name)
		if nerr != nil {
			return err
		}
		if _, starts := c.Report(ctx, b).Has(api.CapStart); starts {
			ready = append(ready, name)
		}
	}
	switch len(ready) {
	case len(names):
		return err
	case 0:
		return api.Errorf(api.KindOf(err), "%w", err).WithHint("no isolation that can do it starts on this host; run hortus doctor to see why")
	}
	return api.Errorf(api.KindOf(err), "%w", err).WithHint("%s", useIsolation+strings.Join(ready, " or "))
}

// useIsolation begins the hints of backends that name others.
const useIsolation = "use --isolation "

// Isolates reports whether the backend that a request gets is fit for untrusted code. The
// errors are those of Choose.
func (c *Chooser) Isolates(ctx context.Context, isolation string) (bool, error) {
	_, report, _, err := c.Choose(ctx, isolation)
	if err != nil {
		return false, err
	}
	_, ok := report.Has(api.CapIsolated)
	return ok, nil
}

func (c *Chooser) strongest(ctx context.Context, key api.KeyIsolation, needs []api.Capability) (sandbox.Backend, api.BackendReport, string, error) {
	// Why not a stronger one: the first reason is for anyone who gets a weaker one, the last
	// for anyone who gets none, since what is weaker needs less.
	var missing error
	why := ""
	not := func(b sandbox.Backend, err error, format string, args ...any) {
		missing = err
		if why == "" {
			why = b.Name() + " " + fmt.Sprintf(format, args...)
		}
	}
next:
	for _, b := range c.backends {
		if b.Capabilities().Remote {
			continue // nobody asked for code to leave this machine
		}
		report := c.Report(ctx, b)
		a, starts := report.Has(api.CapStart)
		if !starts && missing != nil && b.Capabilities().Engine {
			continue
		}
		if !starts {
			not(b, Unisolated(ctx, b.Name(), a), "does not run here: %s", a.Reason)
			continue
		}
		if _, ok := report.Has(api.CapIsolated); !ok {
			continue // it runs, but is not meant for untrusted code
		}
		if _, ok := report.Has(api.CapPrograms); !ok {
			continue // it isolates, and cannot run what most requests are for
		}
		if err := key.Check(b.Name(), true); err != nil {
			not(b, err, "is not allowed for this API key")
			continue
		}
		for _, need := range needs {
			if a, ok := report.Has(need); !ok {
				not(b, api.Errorf(api.KindUnsupported, "the %s backend lacks the capability %s on this host: %s", b.Name(), need, a.Reason).WithHint("%s", a.Fix),
					"lacks %s here: %s", need, a.Reason)
				continue next
			}
		}
		if why == "" {
			why = "strongest isolation available on this host"
		}
		return b, report, why, nil
	}
	if len(key.Allowed) > 0 {
		missing = api.Errorf(api.KindDenied, "auto chooses among what this API key may use, and cannot choose %s here", strings.Join(key.Allowed, " or ")).
			WithHint("name one: --isolation %s; hortus doctor shows what each can do", key.Allowed[0])
	} else if missing == nil {
		missing = api.Errorf(api.KindUnisolated, "no available backend isolates untrusted code").
			WithHint("For trusted code: --isolation process")
	}
	return nil, api.BackendReport{}, "", missing
}

// Unisolated is the error of a backend that this host cannot run.
func Unisolated(ctx context.Context, backend string, a api.Ability) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hint := a.Fix
	if hint == "" {
		hint = "run hortus doctor to see what this host supports"
	}
	return api.Errorf(api.KindUnisolated, "this host cannot run the %s backend: %s", backend, a.Reason).WithHint("%s", hint)
}

// limit ties a field of api.Limits to the capability that enforces it.
type limit struct {
	name string
	cap  api.Capability
	ask  func(*sandbox.Asked) *bool
	get  func(*api.Limits) int64
	set  func(*api.Limits, api.Limits)
}

var limits = []limit{
	{"cpus", api.CapLimitCPU, func(a *sandbox.Asked) *bool { return &a.CPUs },
		func(l *api.Limits) int64 { return milli(l.CPUs) }, func(l *api.Limits, d api.Limits) { l.CPUs = d.CPUs }},
	{"cpu time", api.CapLimitCPUTime, func(a *sandbox.Asked) *bool { return &a.CPUTime },
		func(l *api.Limits) int64 { return l.CPUTimeMS }, func(l *api.Limits, d api.Limits) { l.CPUTimeMS = d.CPUTimeMS }},
	{"memory", api.CapLimitMemory, func(a *sandbox.Asked) *bool { return &a.Memory },
		func(l *api.Limits) int64 { return l.MemoryBytes }, func(l *api.Limits, d api.Limits) { l.MemoryBytes = d.MemoryBytes }},
	{"processes", api.CapLimitProcs, func(a *sandbox.Asked) *bool { return &a.Processes },
		func(l *api.Limits) int64 { return l.Processes }, func(l *api.Limits, d api.Limits) { l.Processes = d.Processes }},
	{"disk", api.CapLimitDisk, func(a *sandbox.Asked) *bool { return &a.Disk },
		func(l *api.Limits) int64 { return l.DiskBytes }, func(l *api.Limits, d api.Limits) { l.DiskBytes = d.DiskBytes }},
	{"disk write rate", api.CapLimitDiskRate, func(a *sandbox.Asked) *bool { return &a.DiskRate },
		func(l *api.Limits) int64 { return l.DiskWriteRate }, func(l *api.Limits, d api.Limits) { l.DiskWriteRate = d.DiskWriteRate }},
	{"output", api.CapLimitOutput, func(a *sandbox.Asked) *bool { return &a.Output },
		func(l *api.Limits) int64 { return l.OutputBytes }, func(l *api.Limits, d api.Limits) { l.OutputBytes = d.OutputBytes }},
}

// milli is a number of processors in thousandths, away from 0, which is no limit.
func milli(cpus float64) int64 {
	if cpus < 0 {
		return -1
	}
	return int64(min(math.Ceil(cpus*1000), 1<<53))
}

// Limits fills in defaults. A request that the host cannot enforce is an
// error; a default that it cannot is listed with its reason.
func Limits(want, defaults api.Limits, report api.BackendReport) (api.Limits, sandbox.Asked, []api.Unenforced, error) {
	var (
		asked   sandbox.Asked
		missing []api.Unenforced
	)
	for _, l := range limits {
		v := l.get(&want)
		switch {
		case v < 0:
			return want, asked, nil, api.Errorf(api.KindInvalid, "limit %s is negative", l.name)
		case v > 0:
			*l.ask(&asked) = true
		default:
			l.set(&want, defaults)
		}
		if l.get(&want) == 0 {
			continue // no limit requested, none by default
		}
		if a, ok := report.Has(l.cap); !ok {
			if *l.ask(&asked) {
				err := api.Errorf(api.KindUnsupported, "the %s backend cannot limit %s on this host: %s (capability %s)",
					report.Backend, l.name, a.Reason, l.cap)
				if a.Fix != "" {
					err = err.WithHint("%s", a.Fix)
				}
				return want, asked, nil, err
			}
			missing = append(missing, api.Unenforced{Limit: l.name, Reason: a.Reason})
		}
	}
	if want.MemoryBytes < MinMemory {
		return want, asked, nil, api.Errorf(api.KindInvalid, "memory limit of %d bytes is below the minimum of %d MiB", want.MemoryBytes, MinMemory>>20)
	}
	if want.Processes < MinProcesses {
		return want, asked, nil, api.Errorf(api.KindInvalid, "process limit of %d is below the minimum, %d", want.Processes, MinProcesses)
	}
	if want.Processes > MaxProcesses {
		return want, asked, nil, api.Errorf(api.KindInvalid, "process limit of %d is above the maximum, %d", want.Processes, MaxProcesses)
	}
	return want, asked, missing, nil
}

// Identities lists the users that commands may run as, the default first. image is the user of
// a container image; empty for none.
func Identities(report api.BackendReport, image string) []string {
	var out []string
	if _, ok := report.Has(api.CapUserIdentity); ok {
		out = append(out, "user")
	}
	if _, ok := report.Has(api.CapRootIdentity); !ok {
		return out // one user, whatever the image says
	}
	out = append(out, "root")
	if image == "" {
		return out
	}
	return append([]string{image}, slices.DeleteFunc(out, func(u string) bool { return u == image })...)
}

// TTL checks a time to live in milliseconds; 0 gives the default.
func TTL(ms int64) (time.Duration, error) {
	ttl := time.Duration(ms) * time.Millisecond
	switch {
	case ms == 0:
		return api.DefaultTTL, nil
	case ms < 0 || ttl/time.Millisecond != time.Duration(ms):
		return 0, api.Errorf(api.KindInvalid, "time to live of %d ms is invalid", ms)
	case ttl > api.MaxTTL:
		return 0, api.Errorf(api.KindInvalid, "time to live of %s is above the maximum, %s", ttl, api.MaxTTL)
	}
	return ttl, nil
}

// NewTTL checks a time to live that was requested.
func NewTTL(ttl time.Duration) error {
	if ttl <= 0 {
		return api.Errorf(api.KindInvalid, "time to live of %s is not positive", ttl)
	}
	// A part of a millisecond is a whole one, since 0 means the default.
	_, err := TTL(max(ttl.Milliseconds(), 1))
	return err
}
