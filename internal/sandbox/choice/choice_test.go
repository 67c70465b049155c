package choice_test

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
)

// backend reports that it can start, isolates and, if it is not bare, has programs.
type backend struct {
	sandbox.Unsupported
	name   string
	remote bool
	bare   bool
	engine bool
	// broken is why it does not start; empty if it does.
	broken string
	probes int
}

func (b *backend) Name() string { return b.name }
func (b *backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Remote: b.remote, Engine: b.engine}
}
func (b *backend) Probe(context.Context) api.BackendReport {
	b.probes++
	return api.BackendReport{Backend: b.name, Abilities: []api.Ability{
		{Capability: api.CapStart, OK: b.broken == "", Reason: b.broken}, {Capability: api.CapIsolated, OK: true}, {Capability: api.CapPrograms, OK: !b.bare},
	}}
}
func (b *backend) Validate(context.Context, sandbox.Spec) error { return nil }
func (b *backend) Start(context.Context, sandbox.Spec) (sandbox.Machine, error) {
	return nil, api.Errorf(api.KindInternal, "it is not started")
}
func (b *backend) Orphans(context.Context) ([]api.SandboxID, error) { return nil, nil }
func (b *backend) Reclaim(context.Context, api.SandboxID) (api.Proof, error) {
	return api.Proof{}, nil
}

// TestAuto: a backend at a service and one without programs are chosen by their name only, and the service is asked again each
// time. The control is the same backend on this host.
func TestAuto(t *testing.T) {
	away, here, bare := &backend{name: "away", remote: true}, &backend{name: "here"}, &backend{name: "bare", bare: true}
	for name, c := range map[string]struct {
		backends  []sandbox.Backend
		isolation string
		want      string
	}{
		"auto, the service is first":      {[]sandbox.Backend{away, here}, choice.Auto, "here"},
		"auto, nothing but the service":   {[]sandbox.Backend{away}, "", ""},
		"auto, no programs in the first":  {[]sandbox.Backend{bare, here}, choice.Auto, "here"},
		"auto, no programs":               {[]sandbox.Backend{bare}, choice.Auto, ""},
		"no programs, by name":            {[]sandbox.Backend{here, bare}, "bare", "bare"},
		"by name":                         {[]sandbox.Backend{away, here}, "away", "away"},
		"control: the first on this host": {[]sandbox.Backend{here, &backend{name: "other"}}, choice.Auto, "here"},
	} {
		b, _, _, err := choice.New(c.backends).Choose(t.Context(), c.isolation)
		switch {
		case c.want == "" && api.KindOf(err) != api.KindUnisolated:
			t.Errorf("%s: %v, %v; want kind unisolated", name, b, err)
		case c.want != "" && (err != nil || b.Name() != c.want):
			t.Errorf("%s: %v, %v; want %s", name, b, err, c.want)
		}
	}
	ch := choice.New([]sandbox.Backend{away, here})
	away.probes, here.probes = 0, 0
	for range 2 {
		ch.Reports(t.Context())
	}
	if away.probes != 2 || here.probes != 1 {
		t.Errorf("probed the service %d times and this host %d times; want 2 and 1", away.probes, here.probes)
	}
}

// TestWhyNone: who gets no backend is told what the last one lacks, but not that an engine is missing which most machines have not.
func TestWhyNone(t *testing.T) {
	own, weaker := &backend{name: "own", broken: "namespaces are forbidden"}, &backend{name: "weaker", broken: "it is not configured"}
	engine := &backend{name: "engine", engine: true, broken: "no engine answers"}
	for name, c := range map[string]struct {
		backends []sandbox.Backend
		want     string
	}{
		"an engine that is missing":  {[]sandbox.Backend{own, engine}, own.broken},
		"only the engine":            {[]sandbox.Backend{engine}, engine.broken},
		"control: the last says why": {[]sandbox.Backend{own, weaker}, weaker.broken},
	} {
		_, _, _, err := choice.New(c.backends).Choose(t.Context(), "")
		if api.KindOf(err) != api.KindUnisolated || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestAdvise: a hint names the backends that start here.
func TestAdvise(t *testing.T) {
	ch := choice.New([]sandbox.Backend{&backend{name: "here"}, &backend{name: "too"}, &backend{name: "not", broken: "it is forbidden"}})
	for hint, want := range map[string]string{
		"use --isolation here or too":   "use --isolation here or too",
		"use --isolation not or here":   "use --isolation here",
		"use --isolation not":           "no isolation that can do it starts on this host; run hortus doctor to see why",
		"use --isolation not or others": "use --isolation not or others", // which nobody knows
		"use another name":              "use another name",
		"":                              "",
	} {
		err := ch.Advise(t.Context(), api.Errorf(api.KindUnsupported, "it cannot").WithHint("%s", hint))
		if api.KindOf(err) != api.KindUnsupported || err.Error() != "it cannot" || api.HintOf(err) != want {
			t.Errorf("%s: %s, %v, next: %s; want %s", hint, api.KindOf(err), err, api.HintOf(err), want)
		}
	}
	if err := ch.Advise(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestLimits: a limit counts as it was requested, or is refused.
func TestLimits(t *testing.T) {
	report := api.BackendReport{Backend: "here", Abilities: []api.Ability{
		{Capability: api.CapLimitCPU, OK: true}, {Capability: api.CapLimitMemory, OK: true}, {Capability: api.CapLimitProcs, OK: true}, {Capability: api.CapLimitDisk, OK: true},
	}}
	for name, c := range map[string]struct {
		want   api.Limits
		refuse string
	}{
		"a small part of a processor": {api.Limits{CPUs: 0.0001}, ""},
		"less than no processor":      {api.Limits{CPUs: -0.0001}, "cpus is negative"},
		"all processors there are":    {api.Limits{CPUs: 1e308}, ""}, // the host's capacity refuses it
		"the most processes":          {api.Limits{Processes: choice.MaxProcesses}, ""},
		"too many processes":          {api.Limits{Processes: choice.MaxProcesses + 1}, "above the maximum"},
	} {
		got, asked, _, err := choice.Limits(c.want, api.DefaultLimits(), report)
		if c.refuse != "" {
			if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.refuse) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || c.want.CPUs > 0 && (got.CPUs != c.want.CPUs || !asked.CPUs) || c.want.Processes > 0 && got.Processes != c.want.Processes {
			t.Errorf("%s: %+v, %+v, %v", name, got, asked, err)
		}
	}
}
