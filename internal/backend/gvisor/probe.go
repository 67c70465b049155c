package gvisor

import (
	"context"
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Probe is the report of the jail, which boots a guest on this kernel, with the differences of
// this kernel.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	if b.cfg.Tools == "" {
		r := api.BackendReport{Backend: b.Name()}
		for _, c := range api.Capabilities() {
			a := b.cfg.Missing
			a.Capability, a.OK = c, false
			if c == api.CapEgress {
				a.Grade = api.EgressByNobody
			}
			r.Abilities = append(r.Abilities, a)
		}
		return r
	}
	jail := b.Backend.Probe(ctx)
	start, ok := jail.Has(api.CapStart)
	r := api.BackendReport{Backend: jail.Backend}
	for _, a := range jail.Abilities {
		if own, there := b.own(a); there && ok {
			a = own
		} else if there {
			a = api.Ability{Capability: a.Capability, Reason: start.Reason, Fix: start.Fix, Grade: a.Grade}
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}

const (
	noWorkspace    = "the users of the sandbox's own kernel have several ids, but an ordinary user's daemon has a single id on the disk"
	noWorkspaceFix = "Run the daemon as root, or use the container backend (--isolation container)."
)

// Validate refuses what this kernel cannot do, and what the jail refuses. See sandbox.Backend.
func (b *Backend) Validate(ctx context.Context, spec sandbox.Spec) error {
	if spec.Workspace != nil && !b.Root() {
		return api.Errorf(api.KindUnsupported, "capability %s is missing: %s", api.CapWorkspace, noWorkspace).WithHint("%s", noWorkspaceFix)
	}
	if _, ok := b.Probe(ctx).Has(api.CapLimitCPUTime); spec.Asked.CPUTime && !ok {
		return api.Errorf(api.KindUnsupported, "capability %s is missing: without control groups the host cannot measure processor time", api.CapLimitCPUTime)
	}
	return b.Backend.Validate(ctx, spec)
}

// Start refuses what Validate refuses, and starts the sandbox otherwise. See sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	return b.Backend.Start(ctx, spec)
}

// own returns the ability if it differs from that of a sandbox on the host's kernel.
func (b *Backend) own(a api.Ability) (api.Ability, bool) {
	yes := func(format string, args ...any) (api.Ability, bool) {
		return api.Ability{Capability: a.Capability, OK: true, Reason: fmt.Sprintf(format, args...)}, true
	}
	switch a.Capability {
	case api.CapIsolated:
		return yes("its own kernel (gVisor %s, systrap), unprivileged, with its own system call filter and namespaces", b.cfg.Version)
	case api.CapRootIdentity:
		return yes("root is an id of the sandbox's own kernel")
	case api.CapLimitMemory:
		by := a.Reason
		if a.Fix != "" {
			a.OK, a.Reason = true, "best effort: checked by the guest"
			return a, true
		}
		return yes("checked by the guest, which kills the process that uses most; %s ends the sandbox some megabytes above the limit", by)
	case api.CapLimitCPUTime:
		if strings.HasPrefix(a.Reason, "best effort") {
			a.OK, a.Reason = false, "without control groups the host cannot measure the processor time of the sandbox's own kernel"
		}
		return a, true
	case api.CapLimitProcs:
		return yes("enforced by the sandbox's own kernel")
	case api.CapLimitDisk:
		return yes("the maximum size of files that the sandbox's own kernel keeps in memory; what is written also counts as memory, and /dev/shm has its own limit")
	case api.CapPrivateFiles:
		return yes("")
	case api.CapCheckpoint:
		return yes("")
	case api.CapEgress:
		a.Reason = "captured by the sandbox's own kernel"
		return a, true
	case api.CapWorkspace:
		if a.OK && !b.Root() {
			a.OK, a.Reason, a.Fix = false, noWorkspace, noWorkspaceFix
		}
		return a, true
	}
	return a, false
}
