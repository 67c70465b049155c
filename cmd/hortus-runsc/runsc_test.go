//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rig is a built runsc with a root file system whose only program sleeps forever, or exits
// at once.
type rig struct {
	runsc, dir string
	logs       string // empty for none
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("runsc by itself wants root; hortus gives it a user namespace")
	}
	r := &rig{dir: tb.TempDir(), runsc: os.Getenv("HORTUS_RUNSC")}
	// The gofer reads the file system with fewer capabilities than root.
	for dir := r.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		// An empty network namespace, which runsc mounts there once.
		if err := unix.Unmount(filepath.Join(r.dir, "run/null-netns"), unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
			tb.Error(err)
		}
	})
	build := func(out, pkg string, flags ...string) {
		cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, flags...), pkg)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			tb.Fatalf("go build %s: %v\n%s", pkg, err, text)
		}
	}
	if r.runsc == "" {
		r.runsc = filepath.Join(r.dir, "runsc")
		if text, err := exec.Command("go", "run", "./patch", "../../bin").CombinedOutput(); err != nil {
			tb.Fatalf("go run ./patch: %v\n%s", err, text)
		}
		build(r.runsc, ".", "-modfile=../../bin/gvisor.mod")
	}
	for _, dir := range []string{"root/proc", "run", "logs", "sleep", "end"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	source := filepath.Join(r.dir, "program.go")
	const program = "package main\n\nimport (\"os\"; \"time\")\n\nfunc main() { if len(os.Args) > 1 { time.Sleep(1 << 60) } }\n"
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		tb.Fatal(err)
	}
	build(filepath.Join(r.dir, "root/program"), source)
	for bundle, args := range map[string][]string{"sleep": {"/program", "sleep"}, "end": {"/program"}} {
		b, err := json.Marshal(specs.Spec{
			Version:  "1.2.0",
			Process:  &specs.Process{User: specs.User{UID: 65533, GID: 65533}, Args: args, Cwd: "/"},
			Root:     &specs.Root{Path: filepath.Join(r.dir, "root")},
			Hostname: "rig",
			Mounts:   []specs.Mount{{Destination: "/proc", Type: "proc"}},
			Linux:    &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "network"}, {Type: "ipc"}, {Type: "uts"}}},
		})
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, bundle, "config.json"), b, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// run runs a command of runsc, with those of hortus's options that affect the filters.
func (r *rig) run(tb testing.TB, args ...string) {
	tb.Helper()
	all := []string{"--root=" + filepath.Join(r.dir, "run"), "--platform=systrap", "--network=none", "--ignore-cgroups",
		"--host-settings=ignore", "--file-access=exclusive", "--overlay2=root:memory"}
	if r.logs != "" {
		all = append(all, "--debug", "--debug-log="+r.logs+"/")
	}
	// Files, not pipes: a sandbox keeps them open.
	out, err := os.CreateTemp(r.dir, "out")
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(r.runsc, append(all, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		tb.Fatalf("runsc %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

func (r *rig) bundle(name string) string { return "--bundle=" + filepath.Join(r.dir, name) }

// A sandbox that hortus starts finds both programs. The programs of package filters are
// useless if the processes look for others.
func TestFiltersAreFound(t *testing.T) {
	r := newRig(t)
	r.logs = filepath.Join(r.dir, "logs")
	r.run(t, "run", r.bundle("end"), "found")
	list, err := filepath.Glob(r.logs + "/*")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, why, missing := bytes.Cut(text, []byte("No precompiled program found")); missing {
			line, _, _ := bytes.Cut(why, []byte("\n"))
			t.Errorf("%s: none is kept %s", filepath.Base(name), line)
		}
		if bytes.Contains(text, []byte("Loaded precompiled seccomp instructions")) {
			found[strings.Split(filepath.Base(name), ".")[4]] = true
		}
	}
	if len(found) != 2 || !found["boot"] || !found["gofer"] {
		t.Errorf("those that loaded one: %v of %q", found, list)
	}
}
