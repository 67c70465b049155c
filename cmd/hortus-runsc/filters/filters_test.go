package filters_test

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	_ "gvisor.dev/gvisor/pkg/sentry/platform/systrap" // registers itself
	sentry "gvisor.dev/gvisor/runsc/boot/filter"
	sentryconfig "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter"
	goferconfig "gvisor.dev/gvisor/runsc/fsgofer/filter/config"

	"hortus.dev/cmd/hortus-runsc/filters"
	"hortus.dev/cmd/hortus-runsc/filters/precompile"
)

const again = "run go generate ./filters, and look at what changed"

// required returns the version of gVisor in go.mod.
func required(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^(?:require |\t)` + regexp.QuoteMeta(filters.Module) + ` (\S+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("go.mod does not require gVisor")
	}
	return string(m[1])
}

func read(t *testing.T, arch string) ([]byte, filters.Table) {
	t.Helper()
	b, err := os.ReadFile("compiled_" + arch + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	table, err := filters.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, table
}

// The programs of every architecture have the version of the linked gVisor.
func TestVersions(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		_, table := read(t, arch)
		if want := required(t); table.Version != want {
			t.Errorf("compiled_%s.bin is of gVisor %s, go.mod has %s: %s", arch, table.Version, want, again)
		}
		want := regexp.MustCompile(`^GOARCH="` + arch + `" `)
		for _, p := range slices.Concat(table.Sentry, table.Gofer) {
			if !want.MatchString(p.Name) || len(p.Bytecode32) == 0 {
				t.Errorf("%s: %d words, not a program for %s", p.Name, len(p.Bytecode32), arch)
			}
		}
		if len(table.Sentry) == 0 || len(table.Gofer) == 0 {
			t.Errorf("compiled_%s.bin lacks programs", arch)
		}
	}
}

// The stored programs are the current output of the generator.
func TestGenerated(t *testing.T) {
	kept, _ := read(t, runtime.GOARCH)
	table, err := precompile.Table(required(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, table.Encode()) {
		t.Errorf("compiled_%s.bin is not what its generator makes: %s", runtime.GOARCH, again)
	}
}

// The programs that gVisor finds, with this process's values, have the same instructions
// as those that it would compile itself. A process with another pid compiled the stored
// programs, so a pid that is not a variable is detected.
func TestSameAsGVisors(t *testing.T) {
	constructor, err := platform.Lookup("systrap")
	if err != nil {
		t.Fatal(err)
	}
	opts := sentry.Options{Platform: constructor.PrecompiledSeccompInfo()[0], HostFilesystem: true, ControllerFD: 8}
	served := gofer.Options{DirectFS: true}
	if strings.Contains(opts.ConfigKey(), "Instrumentation=true") {
		t.Skip("a race detector's rules are others")
	}
	if _, ok := sentry.GetPrecompiled(opts.ConfigKey()); ok {
		t.Fatal("gVisor's module has programs of its own: this package is not needed any more")
	}
	_, table := read(t, runtime.GOARCH)
	filters.Put(table)

	p, ok := sentry.GetPrecompiled(opts.ConfigKey())
	if !ok {
		t.Fatalf("the sentry asks for %q, and there is none", opts.ConfigKey())
	}
	allow, deny := sentryconfig.Rules(opts)
	compare(t, p, opts.Vars(), allow, deny, sentryconfig.SeccompOptions(opts))

	if p, ok = gofer.GetPrecompiled(served.ConfigKey()); !ok {
		t.Fatalf("the gofer asks for %q, and there is none", served.ConfigKey())
	}
	allow, deny = goferconfig.Rules(served)
	compare(t, p, served.Vars(), allow, deny, seccomp.ProgramOptions{})
}

func compare(t *testing.T, p precompiledseccomp.Program, vars precompiledseccomp.Values, allow, deny seccomp.SyscallRules, opts seccomp.ProgramOptions) {
	t.Helper()
	got, err := p.RenderInstructions(vars)
	if err != nil {
		t.Fatal(err)
	}
	own := seccomp.Program{RuleSets: []seccomp.RuleSet{{Rules: deny}, {Rules: allow, Action: seccomp.Allow}}, Options: opts}
	want, _, err := own.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		a, _ := bpf.DecodeInstructions(got)
		b, _ := bpf.DecodeInstructions(want)
		t.Errorf("the kept program of %s differs from gVisor's own: %s\nkept:\n%s\nown:\n%s", p.Name, again, a, b)
	}
}

// A test binary does not contain gVisor's version, so it gets no programs.
func TestUnknownVersion(t *testing.T) {
	if v := filters.Linked(); v != "" {
		t.Skipf("this one does: %s", v)
	}
	if filters.Register() {
		t.Error("programs were handed to a gVisor of an unknown version")
	}
}

func TestCodec(t *testing.T) {
	b, table := read(t, runtime.GOARCH)
	if !bytes.Equal(b, table.Encode()) {
		t.Error("what was decoded encodes to something else")
	}
	for cut := range len(b) {
		if _, err := filters.Decode(b[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", cut, len(b))
		}
	}
	if _, err := filters.Decode(append(b, 0)); err == nil {
		t.Error("a byte too many was accepted")
	}
}

// With any damage, nothing is written outside of a program. (A fuzz test would find more,
// but gVisor cannot be linked with a fuzzer's instrumentation.)
func TestDamaged(t *testing.T) {
	b, _ := read(t, runtime.GOARCH)
	for at := range b {
		for _, bits := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(b)
			damaged[at] ^= bits
			table, err := filters.Decode(damaged)
			if err != nil {
				continue
			}
			for _, p := range slices.Concat(table.Sentry, table.Gofer) {
				for name, offsets := range p.VarOffsets {
					for _, offset := range offsets {
						if offset < 0 || offset >= len(p.Bytecode32) {
							t.Fatalf("byte %d: %s is to be written at %d of %d words", at, name, offset, len(p.Bytecode32))
						}
					}
				}
			}
		}
	}
}
