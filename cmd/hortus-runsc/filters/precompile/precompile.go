package precompile

import (
	"fmt"
	"maps"
	"slices"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	_ "gvisor.dev/gvisor/pkg/sentry/platform/systrap" // registers itself
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"

	"hortus.dev/cmd/hortus-runsc/filters"
)

// gVisor's rules, with variables for what only a running process knows: its pid and the
// descriptor of its control socket.
//
//go:linkname sentryRules gvisor.dev/gvisor/runsc/boot/filter/config.rules
func sentryRules(sentry.Options, precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules)

//go:linkname goferRules gvisor.dev/gvisor/runsc/fsgofer/filter/config.rules
func goferRules(gofer.Options, precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules)

// Table compiles the programs for the architecture that it runs on. version must be the
// version of gVisor that is linked.
func Table(version string) (filters.Table, error) {
	constructor, err := platform.Lookup("systrap")
	if err != nil {
		return filters.Table{}, err
	}
	t := filters.Table{Version: version}
	for _, info := range constructor.PrecompiledSeccompInfo() {
		info = ownPID{info}
		// --platform=systrap --network=none --directfs, without device passthrough.
		opts := sentry.Options{Platform: info, HostFilesystem: true}
		p, err := compile(opts.ConfigKey(), opts.Vars(), sentry.SeccompOptions(opts), func(v precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules) {
			return sentryRules(opts, v)
		})
		if err != nil {
			return filters.Table{}, err
		}
		t.Sentry = append(t.Sentry, p)
	}
	// --host-uds=none --directfs.
	opts := gofer.Options{DirectFS: true}
	p, err := compile(opts.ConfigKey(), opts.Vars(), seccomp.ProgramOptions{}, func(v precompiledseccomp.Values) (seccomp.SyscallRules, seccomp.SyscallRules) {
		return goferRules(opts, v)
	})
	if err != nil {
		return filters.Table{}, err
	}
	t.Gofer = append(t.Gofer, p)
	return t, nil
}

// ownPID is a platform whose rules refer to the process only by the variable for its
// pid. Systrap has one rule, for a signal to a thread of the process, that contains the
// pid of the process that compiles it.
type ownPID struct{ platform.SeccompInfo }

func (p ownPID) SyscallFilters(vars precompiledseccomp.Values) seccomp.SyscallRules {
	rules := p.SeccompInfo.SyscallFilters(vars).Copy()
	rules.Remove(unix.SYS_RT_TGSIGQUEUEINFO) // panics if the rule does not exist
	return rules.Set(unix.SYS_RT_TGSIGQUEUEINFO, seccomp.PerArg{
		seccomp.EqualTo(vars.GetUint64("self_pid")), seccomp.AnyValue{}, seccomp.EqualTo(unix.SIGKILL),
	})
}

// compile compiles rules to a program, as gVisor does when it starts.
func compile(name string, vars precompiledseccomp.Values, opts seccomp.ProgramOptions, rules func(precompiledseccomp.Values) (allow, deny seccomp.SyscallRules)) (precompiledseccomp.Program, error) {
	// gVisor's choice if the kernel supports it, as all since 4.14 do. Set it here, so
	// that it does not depend on the kernel of the machine that compiles.
	opts.DefaultAction, opts.BadArchAction = seccomp.KillProcess, seccomp.KillProcess
	p, err := precompiledseccomp.Precompile(name, slices.Sorted(maps.Keys(vars)), func(v precompiledseccomp.Values) *seccomp.Program {
		allow, deny := rules(v)
		return &seccomp.Program{
			RuleSets: []seccomp.RuleSet{{Rules: deny.Copy(), Action: seccomp.KillProcess}, {Rules: allow.Copy(), Action: seccomp.Allow}},
			Options:  opts,
		}
	})
	if err != nil {
		return p, fmt.Errorf("compile %s: %w", name, err)
	}
	return p, nil
}
