package docker_test

import (
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/tier"
)

// TestSaves saves sandboxes in the states that other backends do not have, and looks at what is left in the engine.
func TestSaves(t *testing.T) {
	tier.Soak(t) // test/conformance has a save in each run
	b := newBench(t)
	d := b.open(t, "run")
	spec := b.spec()
	m := start(t, d, spec)
	output(t, m, "user", "echo kept >/workspace/f")
	images := b.docker(t, "images", "-aq")

	// Who paused it before the save resumes it.
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := m.Save(t.Context(), dir, sandbox.SaveOptions{Files: true}); err != nil {
		t.Fatal(err)
	}
	if state := b.docker(t, "inspect", "-f", "{{.State.Status}}", "hortus-"+string(spec.ID)); state != "paused\n" {
		t.Errorf("after the save it is %q", state)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = b.open(t, "run")
	a, err := d.Adopt(t.Context(), spec.ID)
	if err != nil || !a.Paused {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := a.Machine.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}

	// A child of layers of its own daemon, which is saved and forked again.
	child := b.spec()
	r, err := d.Restore(t.Context(), child, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Claim(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := output(t, r, "user", "cat /workspace/f; cat /etc/hostname; cat /run/e2b/.E2B_SANDBOX >/dev/null && ls -a /run/e2b | wc -l"); !strings.HasPrefix(got, "kept\nbox\n") {
		t.Errorf("%q", got)
	}
	kill(t, r)
	if now := b.docker(t, "images", "-aq"); now != images {
		t.Errorf("images %q, before the save %q", now, images)
	}

	// The daemon ends while a save holds the sandbox, and another container that saves it was made.
	m = a.Machine
	if _, err := m.Save(t.Context(), t.TempDir(), sandbox.SaveOptions{Files: true, Hold: true}); err != nil {
		t.Fatal(err)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	owner := strings.TrimSpace(b.docker(t, "inspect", "-f", `{{index .Config.Labels "dev.hortus.owner"}}`, "hortus-"+string(spec.ID)))
	img := strings.Fields(images)[0]
	ours := strings.TrimSpace(b.docker(t, "create", "--label", "dev.hortus.owner="+owner, "--label", "dev.hortus.saves="+string(spec.ID), img, "true"))
	theirs := strings.TrimSpace(b.docker(t, "create", "--label", "dev.hortus.owner=x"+owner, "--label", "dev.hortus.saves="+string(spec.ID), img, "true"))
	d = b.open(t, "run")
	if a, err = d.Adopt(t.Context(), spec.ID); err != nil || a.Paused {
		t.Fatalf("%+v, %v", a, err)
	}
	if got := output(t, a.Machine, "user", "cat /workspace/f"); got != "kept\n" {
		t.Errorf("after the save of a daemon that ended: %q", got)
	}
	if all := b.docker(t, "ps", "-aq", "--no-trunc"); strings.Contains(all, ours) || !strings.Contains(all, theirs) {
		t.Errorf("containers %q: want %s, and not %s", all, theirs, ours)
	}
	ours = strings.TrimSpace(b.docker(t, "create", "--label", "dev.hortus.owner="+owner, "--label", "dev.hortus.saves="+string(spec.ID), img, "true"))
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = b.open(t, "run")
	if proof, err := d.Reclaim(t.Context(), spec.ID); err != nil || proof.Left != 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	if all := strings.Fields(b.docker(t, "ps", "-aq", "--no-trunc")); len(all) != 1 || all[0] != theirs {
		t.Errorf("containers %q are left, want %s", all, theirs)
	}
	b.docker(t, "rm", theirs)
	if volumes := b.docker(t, "volume", "ls", "-q"); volumes != "" {
		t.Errorf("volumes are left: %q", volumes)
	}
}

// TestSaveRefusesWorkspaces: a workspace is not part of a snapshot, neither when it is made nor when a sandbox starts from it.
func TestSaveRefusesWorkspaces(t *testing.T) {
	tier.Soak(t)
	b := newBench(t)
	d := b.open(t, "run")
	spec, dir := b.spec(), t.TempDir()
	m := start(t, d, spec)
	if _, err := m.Save(t.Context(), dir, sandbox.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	kill(t, m)
	spec = b.spec()
	spec.Workspace, _ = b.desk(t)
	if _, err := d.Restore(t.Context(), spec, dir); api.KindOf(err) != api.KindInvalid {
		t.Errorf("restored with a workspace: %v", err)
	}
	m = start(t, d, spec)
	defer kill(t, m)
	if _, err := m.Save(t.Context(), t.TempDir(), sandbox.SaveOptions{}); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("saved with a workspace: %v", err)
	}
	if got := output(t, m, "user", "echo lives"); got != "lives\n" {
		t.Errorf("%q", got)
	}
}
