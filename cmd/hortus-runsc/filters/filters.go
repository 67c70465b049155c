package filters

import (
	"path"
	"runtime/debug"
	"strings"
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
	if err != nil || t.Version == "" || t.Version != rules() {
		return false
	}
	put(t)
	return true
}

// rules returns the version of the module, whose rules the changes of package patch do not
// affect.
func rules() string {
	v, _, _ := linked()
	return v
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

// Linked returns the version of gVisor in this binary: that of the module, followed by "+"
// and the digest of the changes that package patch has made. It returns "" if the version is
// unknown or the module is replaced by something else.
func Linked() string {
	v, digest, ok := linked()
	if !ok || digest == "" {
		return v
	}
	return v + "+" + digest
}

// linked returns the version of the module, and the digest of its changes or "".
func linked() (version, digest string, ok bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", false
	}
	for _, m := range info.Deps {
		if m.Path != Module {
			continue
		}
		if m.Replace == nil {
			return m.Version, "", true
		}
		// Package patch calls the changed copy by the digest of its changes.
		digest, ok := strings.CutPrefix(path.Base(m.Replace.Path), "gvisor-")
		if !ok {
			return "", "", false
		}
		return m.Version, digest, true
	}
	return "", "", false
}

// Module is the path of gVisor's module.
const Module = "gvisor.dev/gvisor"
