package gvisor

import (
	"context"
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// Probe is the jail's, which boots a guest on this kernel, in the words of what this
// kernel does itself.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	if b.cfg.Tools == "" {
		r := api.BackendReport{Backend: b.Name()}
		for _, c := range api.Capabilities() {
			a := b.cfg.Missing
			a.Capability, a.OK = c, false
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
			a = api.Ability{Capability: a.Capability, Reason: start.Reason, Fix: start.Fix}
		}
		r.Abilities = append(r.Abilities, a)
	}
	return r
}

const (
	noWorkspace    = "an ordinary user's daemon has one id on the disk, and the users of the sandbox's own kernel have several"
	noWorkspaceFix = "Run the daemon as root, or use the container backend (--isolation container)."
)

// Start is the jail's, but for what this kernel cannot do. See sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if spec.Workspace != nil && !b.Root() {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: %s", api.CapWorkspace, noWorkspace).WithHint("%s", noWorkspaceFix)
	}
	if _, ok := b.Probe(ctx).Has(api.CapLimitCPUTime); spec.Asked.CPUTime && !ok {
		return nil, api.Errorf(api.KindUnsupported, "capability %s is missing: the host cannot add up processor time here", api.CapLimitCPUTime)
	}
	return b.Backend.Start(ctx, spec)
}

// own says what differs from a sandbox on the host's kernel.
func (b *Backend) own(a api.Ability) (api.Ability, bool) {
	yes := func(format string, args ...any) (api.Ability, bool) {
		return api.Ability{Capability: a.Capability, OK: true, Reason: fmt.Sprintf(format, args...)}, true
	}
	switch a.Capability {
	case api.CapIsolated:
		return yes("a kernel of its own (gVisor %s, systrap), unprivileged, with its own filter of system calls, in namespaces of its own", b.cfg.Version)
	case api.CapRootIdentity:
		return yes("an id of the sandbox's own kernel")
	case api.CapLimitMemory:
		by := a.Reason
		if a.Fix != "" {
			a.OK, a.Reason = true, "best effort: watched by the guest"
			return a, true
		}
		return yes("watched by the guest, which ends the command that uses most; %s ends the sandbox some megabytes above", by)
	case api.CapLimitCPUTime:
		if strings.HasPrefix(a.Reason, "best effort") {
			a.OK, a.Reason = false, "without control groups the host cannot add up what a kernel of the sandbox's own uses"
		}
		return a, true
	case api.CapLimitProcs:
		return yes("held by the sandbox's own kernel")
	case api.CapLimitDisk:
		return yes("the size of what the sandbox's own kernel keeps in memory; what is written counts as memory too, and /dev/shm has a bound of its own")
	case api.CapPrivateFiles:
		return yes("")
	case api.CapCheckpoint:
		return yes("")
	case api.CapWorkspace:
		if a.OK && !b.Root() {
			a.OK, a.Reason, a.Fix = false, noWorkspace, noWorkspaceFix
		}
		return a, true
	}
	return a, false
}
