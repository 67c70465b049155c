package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/tier"
)

// desk makes a workspace over a layer of two files, and returns it with a function that reads a file which is stored in it; "" is
// none.
func (b *bench) desk(t *testing.T) (*sandbox.Workspace, func(name string) string) {
	t.Helper()
	base := b.put(t, "sha256-"+layer.Digest(strings.Repeat("b", 64)), func(root string) error {
		err := os.WriteFile(filepath.Join(root, "base"), []byte("base\n"), 0o644)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "other"), []byte("other\n"), 0o644)
		}
		if err == nil {
			err = workspace.Own(root)
		}
		return err
	})
	id, err := b.workspaces.Create(t.Context(), "", []layer.Digest{base})
	if err != nil {
		t.Fatal(err)
	}
	return &sandbox.Workspace{Layers: []layer.Digest{base}, Upper: id}, func(name string) string {
		text, _ := os.ReadFile(filepath.Join(b.workspaces.Dir(), string(id), workspace.Upper, name))
		return string(text)
	}
}

// TestWorkspace has a workspace stored when its sandbox is paused, when it is killed, and when the next daemon finds what is left of one
// that did neither.
func TestWorkspace(t *testing.T) {
	tier.Soak(t) // each run has cases of test/conformance
	b := newBench(t)
	first := b.open(t, "run")
	spec := b.spec()
	var stored func(string) string
	spec.Workspace, stored = b.desk(t)
	m := start(t, first, spec)
	output(t, m, "user", "cd /workspace; echo one >f; rm other")
	if got := stored("f"); got != "" {
		t.Errorf("before a pause %q is stored", got)
	}
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stored("f"); got != "one\n" {
		t.Errorf("after a pause %q is stored", got)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	output(t, m, "user", "cd /workspace; echo two >f; echo other >other")
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.workspaces.Lease(t.Context(), spec.Workspace.Upper); api.KindOf(err) != api.KindConflict {
		t.Errorf("a second writer while the container runs without a daemon: %v", err)
	}

	second := b.open(t, "run")
	a, err := second.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	output(t, a.Machine, "user", "echo three >>/workspace/f")
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := b.open(t, "run")
	if proof, err := third.Reclaim(t.Context(), spec.ID); err != nil || proof.Left != 0 {
		t.Fatalf("%+v, %v", proof, err)
	}
	if got := stored("f"); got != "two\nthree\n" {
		t.Errorf("of a reclaimed sandbox %q is stored", got)
	}

	// The container has ended, and somebody else has used the workspace since.
	spec.ID = api.NewSandboxID()
	m = start(t, third, spec)
	if got := output(t, m, "user", "cd /workspace; cat base other f; echo late >f"); got != "base\nother\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.docker(t, "kill", "hortus-"+string(spec.ID))
	next := spec
	next.ID = api.NewSandboxID()
	m = start(t, third, next)
	output(t, m, "user", "echo newest >/workspace/f")
	kill(t, m)
	if _, err := third.Reclaim(t.Context(), spec.ID); err != nil {
		t.Error(err)
	}
	if got := stored("f"); got != "newest\n" {
		t.Errorf("%q replaces what a later sandbox wrote", got)
	}
	if err := b.workspaces.Remove(t.Context(), spec.Workspace.Upper, "the test is over"); err != nil {
		t.Error(err)
	}
	if volumes := b.docker(t, "volume", "ls", "-q"); volumes != "" {
		t.Errorf("volumes are left: %q", volumes)
	}
}

// TestHostileWorkspace has root leave everything in a workspace that could lead the host astray, or that it could not remove.
func TestHostileWorkspace(t *testing.T) {
	tier.Soak(t) // six sandboxes
	b := newBench(t)
	d := b.open(t, "run")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("of the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := b.spec()
	var stored func(string) string
	spec.Workspace, stored = b.desk(t)
	m := start(t, d, spec)
	output(t, m, "root", `cd /workspace
		ln base again; ln other second; echo changed >>other
		echo old >time; touch -d @1000000000 time
		ln -s `+outside+` link; ln -s / top; mkdir -p d/e; ln -s ../../../../../../..`+filepath.Dir(outside)+` d/up
		mkfifo pipe; cp /bin/true suid; chmod 6777 suid; chown 7:8 suid; echo x >closed; chmod 0 closed
		mkdir shut; echo x >shut/x; chmod 0 shut; printf x >"$(printf 'a\nb\\c')"; printf x >'d/e/*'
		cd /; mv /workspace /moved; rmdir /workspace; ln -s `+filepath.Dir(outside)+` /workspace/own`)
	if _, err := m.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	upper := filepath.Join(b.workspaces.Dir(), string(spec.Workspace.Upper), workspace.Upper)
	for name, want := range map[string]string{
		"again": "base\n", "time": "old\n", "second": "other\nchanged\n", "other": "other\nchanged\n", "closed": "x\n", "shut/x": "x\n", "a\nb\\c": "x", "d/e/*": "x", "base": "",
	} {
		if got := stored(name); got != want {
			t.Errorf("%q is stored as %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"link": outside, "top": "/", "own": filepath.Dir(outside)} {
		if got, err := os.Readlink(filepath.Join(upper, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	if fi, err := os.Lstat(filepath.Join(upper, "suid")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("a setuid file is stored with mode %v, %v", fi.Mode(), err)
	}
	if _, err := os.Lstat(filepath.Join(upper, "pipe")); !os.IsNotExist(err) {
		t.Errorf("a pipe: %v", err)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "of the host\n" {
		t.Errorf("the host's file is %q, %v", text, err)
	}

	// A file that changed has the time and the size of the one before.
	spec.ID = api.NewSandboxID()
	m = start(t, d, spec)
	output(t, m, "user", "cd /workspace; echo new >time; touch -d @1000000000 time; touch again")
	kill(t, m)
	if got := stored("time") + stored("again"); got != "new\nbase\n" {
		t.Errorf("with the old time %q is stored", got)
	}

	// Files with holes have any size. What was stored before them stays.
	for name, script := range map[string]string{
		"one file": "truncate -s 1T /workspace/holes", "an old file": "truncate -s 1T /workspace/base", "many files": "for i in $(seq 200); do truncate -s 1G /workspace/holes$i; done",
	} {
		spec.ID = api.NewSandboxID()
		m = start(t, d, spec)
		output(t, m, "user", "echo lost >/workspace/again; "+script)
		proof, err := m.Kill(t.Context())
		if api.KindOf(err) != api.KindExhausted || proof.Left != 0 {
			t.Errorf("%s: %+v, %v", name, proof, err)
		}
		if got := stored("again"); got != "base\n" {
			t.Errorf("%s: %q is stored", name, got)
		}
	}
	// The engine leaves out what it cannot name, without an error: nobody could tell it from what was removed.
	spec.ID = api.NewSandboxID()
	m = start(t, d, spec)
	output(t, m, "user", "cd /workspace; echo lost >again; n=$(printf %0250d 0); for i in $(seq 17); do mkdir $n; cd $n; done; echo out of reach >f")
	if proof, err := m.Kill(t.Context()); api.KindOf(err) != api.KindConflict || proof.Left != 0 || stored("again") != "base\n" {
		t.Errorf("a deep tree: %+v, %v, %q", proof, err, stored("again"))
	}
	if err := b.workspaces.Remove(context.Background(), spec.Workspace.Upper, "the test is over"); err != nil {
		t.Error(err)
	}
	if ids, err := d.Orphans(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("left: %q, %v", ids, err)
	}
}

// TestResumeWhileStored has another caller resume a sandbox again and again: what a pause stores is of one instant nevertheless.
func TestResumeWhileStored(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	spec := b.spec()
	var stored func(string) string
	spec.Workspace, stored = b.desk(t)
	m := start(t, d, spec)
	output(t, m, "user", `cd /workspace; head -c 16000000 /dev/urandom >much
		setsid sh -c 'n=0; while :; do n=$((n+1)); for i in a b c d e f g h; do echo $n >.new; mv .new $i; done; done' >/dev/null 2>&1 </dev/null &
		until [ -s h ]; do sleep 0.05; done`)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := m.Resume(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	for range 5 {
		if err := m.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		var n [8]int
		for i := range n {
			if _, err := fmt.Sscan(stored(string(rune('a'+i))), &n[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.IsSortedFunc(n[:], func(x, y int) int { return y - x }) || n[0]-n[7] > 1 {
			t.Errorf("stored: %d", n)
		}
	}
	stop()
	<-done
	kill(t, m)
}
