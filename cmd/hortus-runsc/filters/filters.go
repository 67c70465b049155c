package filters

import (
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
)

// gVisor's private tables. gVisor's own build generates the source that fills them,
// which a build of the module cannot do.
//
//go:linkname sentryPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var sentryPrograms map[string]precompiledseccomp.Program

//go:linkname goferPrograms gvisor.dev/gvisor/runsc/fsgofer/filter.precompiledPrograms
var goferPrograms map[string]precompiledseccomp.Program

// Register passes the programs that were compiled for this architecture to gVisor, and
// reports whether it did. It returns false if they are of another version of gVisor than
// the one in this binary; gVisor then compiles its rules at each start. It must be called
// once, before gVisor installs a filter.
func Register() bool {
	t, err := Decode(compiled)
	if err != nil || t.Version == "" || t.Version != Linked() {
		return false
	}
	put(t)
	return true
}

// put adds the programs to gVisor's tables.
func put(t Table) {
	// The first call creates the empty tables.
	sentry.ListPrecompiled()
	gofer.ListPrecompiled()
	for _, p := range t.Sentry {
		sentryPrograms[p.Name] = p
	}
	for _, p := range t.Gofer {
		goferPrograms[p.Name] = p
	}
}

// Linked returns the version of the gVisor module in this binary. It returns "" if the
// version is unknown or the module is replaced.
func Linked() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == Module && m.Replace == nil {
			return m.Version
		}
	}
	return ""
}

// Module is the path of gVisor's module.
const Module = "gvisor.dev/gvisor"
