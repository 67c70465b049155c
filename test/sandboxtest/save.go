package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// restorer is the backend as one that starts from what was saved.
func (s *Suite) restorer(t *testing.T) sandbox.Backend {
	t.Helper()
	b := s.Backend
	if a, ok := b.(Ahead); ok {
		b = a.Backend
	}
	if !b.Capabilities().Save {
		t.Skipf("%s saves nothing", s.Backend.Name())
	}
	if a, ok := s.Report.Has(api.CapCheckpoint); !ok {
		// Files need a sandbox that is paused.
		if _, still := s.Report.Has(api.CapPause); !still {
			t.Skipf("%s saves nothing on this host: %s", s.Backend.Name(), a.Reason)
		}
	}
	return b
}

// trySave saves a sandbox into a new directory.
func (b *Sandbox) trySave(t *testing.T, o sandbox.SaveOptions) (string, sandbox.Saved, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
	defer cancel()
	dir := t.TempDir()
	saved, err := b.Machine.Save(ctx, dir, o)
	return dir, saved, err
}

// sandbox is a machine that is going to be killed.
func (s *Suite) sandbox(t *testing.T, id api.SandboxID, m sandbox.Machine) *Sandbox {
	b := &Sandbox{ID: id, Machine: m, Guest: envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
	t.Cleanup(func() {
		b.Guest.Close()
		s.kill(t, b)
	})
	return b
}

// save saves a sandbox and checks what is said of it.
func (s *Suite) save(t *testing.T, b *Sandbox, o sandbox.SaveOptions) string {
	t.Helper()
	dir, saved, err := b.trySave(t, o)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	want := api.SnapshotMemory
	if _, ok := s.Report.Has(api.CapCheckpoint); !ok || o.Files {
		want = api.SnapshotFiles
	}
	if saved.Kind != want || (saved.Why != "") != (want == api.SnapshotFiles && !o.Files) || saved.Paused <= 0 {
		t.Errorf("saved %+v; want kind %s, why if that is less than was asked, and a pause", saved, want)
	}
	switch {
	case want == api.SnapshotFiles && (saved.Memory != "" || saved.MemoryWhy != ""),
		want == api.SnapshotMemory && saved.Memory != api.MemoryShared && saved.Memory != api.MemoryCopied,
		o.CopyMemory && saved.Memory != api.MemoryCopied,
		saved.Memory == api.MemoryCopied && (saved.MemoryWhy == "") != o.CopyMemory:
		t.Errorf("memory %q, why %q: one of shared and copied if memory is saved, and why it is copied if that was not requested", saved.Memory, saved.MemoryWhy)
	}
	mark, err := s.restorer(t).Mark(t.Context(), saved.Kind)
	if err != nil {
		t.Fatalf("mark: %v", err)
	}
	if saved.Mark.Backend != "" && saved.Mark != mark {
		t.Errorf("saved with the mark %+v, and what can be restored has %+v", saved.Mark, mark)
	}
	s.checkImage(t, dir)
	return dir
}

// checkImage holds an image to what a store of snapshots takes.
func (s *Suite) checkImage(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 || len(entries) > 64 {
		t.Errorf("an image of %d files", len(entries))
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			t.Errorf("the image's %s is no regular file: %v", e.Name(), e.Type())
		}
	}
}

// tryRestore boots from an image. The guest waits for its claim.
func (s *Suite) tryRestore(t *testing.T, dir string) (*Sandbox, sandbox.Machine, sandbox.Spec, error) {
	t.Helper()
	spec := s.spec()
	spec.Env = map[string]string{"SANDBOXTEST": "restored"}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
	defer cancel()
	m, err := s.restorer(t).Restore(ctx, spec, dir)
	if err != nil {
		return nil, nil, spec, err
	}
	return s.sandbox(t, spec.ID, m), m, spec, nil
}

// restore starts a sandbox from an image.
func (s *Suite) restore(t *testing.T, dir string) *Sandbox {
	t.Helper()
	b, m, spec, err := s.tryRestore(t, dir)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	if err := m.Claim(ctx, spec.Env); err != nil {
		t.Fatalf("claim: %v", err)
	}
	return b
}

// written makes everything that a tree can have, and seen shows it.
const written = `set -e
cd /workspace
printf kept >file; chmod 0640 file; ln file twin; ln -s /etc/passwd link; mkfifo pipe; mkdir -p dir/deep shut
printf x >"$(printf 'new\nline')"; printf secret >shut/secret; chmod 0 shut/secret; chmod 0 shut
touch -d @1000000000 dir/deep; touch -d @1000000001 file; chmod 1777 dir
truncate -s 1G sparse; printf end >>sparse
printf home >/home/user/.profile-of-mine; printf tmp >/tmp/t
`

const seen = `cd /workspace
cat file twin; echo; stat -c '%a %h %Y %u:%g %s' file; readlink link; stat -c '%F %a' pipe; stat -c '%a' dir shut; stat -c %Y dir/deep
ls | tr '\n' ' '; echo
stat -c %s sparse; tail -c3 sparse; [ $(du -k sparse | cut -f1) -lt 100 ] && echo few
chmod 700 shut; stat -c %a shut/secret; chmod 600 shut/secret; cat shut/secret; chmod 0 shut/secret; chmod 0 shut
cat /home/user/.profile-of-mine /tmp/t; echo; stat -c '%a %u' /tmp /home/user /workspace`

// layered writes over the layers: changes, whiteouts, directories that hide others.
const layered = `set -e
printf '# mine\n' >>/etc/passwd; chmod 4755 /etc/passwd
mkdir -p /etc/hidden.d /srv; rm -rf /etc/ssl /etc/alternatives 2>/dev/null || true
rm -f /etc/shells /etc/services; mkdir -p /etc/services; printf inner >/etc/services/x
mv /etc/group /etc/group2; chown 1234:4321 /etc/group2
`

const layeredSeen = `tail -n1 /etc/passwd; stat -c '%a %u' /etc/passwd; ls -A /etc/ssl 2>&1 | head -3; ls -d /etc/shells 2>/dev/null
cat /etc/services/x; ls -A /etc/services /etc/hidden.d; ls -d /etc/group 2>/dev/null; stat -c '%u:%g' /etc/group2; true`

func saveCases() []Case {
	return []Case{
		{Name: "save/what-was-written-is-there", Claimed: true, PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, written).want(t, 0, "")
			before := b.sh(t, seen)
			root := false
			if _, root = s.Report.Has(api.CapRootIdentity); root {
				b.run(t, "root", "sh", "-c", layered).want(t, 0, "")
			}
			over := b.run(t, "user", "sh", "-c", "true")
			if root {
				over = b.run(t, "root", "sh", "-c", layeredSeen)
			}
			dir := s.save(t, b, sandbox.SaveOptions{})
			b.sh(t, seen).want(t, 0, before.Stdout) // it continues, as it was
			s.kill(t, b)
			c := s.restore(t, dir)
			c.sh(t, seen).want(t, 0, before.Stdout)
			if root {
				c.run(t, "root", "sh", "-c", layeredSeen).want(t, 0, over.Stdout)
			}
			c.sh(t, "echo $SANDBOXTEST; hostname; id -u").want(t, 0, "restored\nsandbox\n1000\n")
		}},
		{Name: "save/hidden-directories-stay-hidden", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapRootIdentity, api.CapPrivateFiles}, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			// A directory of the layers that has something in it is removed and made
			// again: nothing of the layer may come back in it.
			const hide = `cd /etc; for d in */; do d=${d%/}; if [ -n "$(ls -A $d)" ] && rm -rf $d 2>/dev/null && mkdir $d; then echo $d; break; fi; done`
			r := b.run(t, "root", "sh", "-c", hide)
			if r.Code() != 0 || r.Stdout == "" {
				t.Skipf("no directory of a layer can be made again: %+v", r)
			}
			name := r.Stdout[:len(r.Stdout)-1]
			c := s.restore(t, s.save(t, b, sandbox.SaveOptions{}))
			c.sh(t, "ls -A /etc/"+name).want(t, 0, "")
			// And again in what starts from the child.
			s.restore(t, s.save(t, c, sandbox.SaveOptions{})).sh(t, "ls -A /etc/"+name).want(t, 0, "")
		}},
		{Name: "save/children-and-parent-go-their-own-ways", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, "echo parent >file; echo common >common").want(t, 0, "")
			dir := s.save(t, b, sandbox.SaveOptions{})
			sum := imageSum(t, dir)
			sandboxes := []*Sandbox{b, s.restore(t, dir), s.restore(t, dir)}
			if imageSum(t, dir) != sum {
				t.Error("a start changed the image")
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"first", "second", "third"} {
				sandboxes[i].sh(t, "echo "+name+" >>file; echo "+name+" >only-"+name).want(t, 0, "")
			}
			for i, name := range []string{"first", "second", "third"} {
				sandboxes[i].sh(t, "cat file common; ls only-*").want(t, 0, "parent\n"+name+"\ncommon\nonly-"+name+"\n")
			}
			// Neither needs the other: the first child is a parent after the death of its own.
			s.kill(t, b)
			c := s.restore(t, s.save(t, sandboxes[1], sandbox.SaveOptions{}))
			c.sh(t, "cat file; ls only-*").want(t, 0, "parent\nsecond\nonly-second\n")
		}},
		{Name: "save/memory-goes-on-where-it-is-saved", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, `setsid sh -c 'mkfifo ask answer; n=40; while read line <ask; do n=$((n+1)); echo $n >answer; done' >/dev/null 2>&1 </dev/null &
until [ -p answer ]; do sleep 0.05; done`).want(t, 0, "")
			b.sh(t, "echo >ask; cat answer").want(t, 0, "41\n")
			c := s.restore(t, s.save(t, b, sandbox.SaveOptions{}))
			if _, ok := s.Report.Has(api.CapCheckpoint); ok {
				c.sh(t, "echo >ask; cat answer").want(t, 0, "42\n")
			} else {
				c.sh(t, "[ -p ask ] || echo no pipe; for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; done | grep -c 'n=4[0]' || true").want(t, 0, "0\n")
			}
			b.sh(t, "echo >ask; cat answer").want(t, 0, "42\n")
		}},
		{Name: "save/one-instant", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			if _, ok := s.Report.Has(api.CapCheckpoint); ok {
				t.Skip("what writes goes on in what is restored")
			}
			b := s.start(t, nil)
			// One program writes the same number to one file after the other, with much
			// to copy beside them: of a tree that moves, a copy has numbers far apart.
			b.sh(t, `head -c 16000000 /dev/urandom >much
setsid python3 -c '
import os
n = 0
while True:
    n += 1
    for name in ["f%02d" % i for i in range(40)]:
        with open(".new", "w") as f: f.write(str(n))
        os.rename(".new", name)
' >/dev/null 2>&1 </dev/null &
until [ -s f39 ]; do sleep 0.05; done`).want(t, 0, "")
			for range 5 {
				c := s.restore(t, s.save(t, b, sandbox.SaveOptions{}))
				c.run(t, "", "python3", "-c", `
n = [int(open("f%02d" % i).read()) for i in range(40)]
print("one instant" if n == sorted(n, reverse=True) and n[0] - n[-1] <= 1 else n)
`).want(t, 0, "one instant\n")
				s.kill(t, c)
			}
		}},
		{Name: "save/hold", PerUser: true, Alone: true, Needs: start1, Check: saveHold},
		{Name: "save/files-only", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, "echo it >file; setsid sleep 1000 >/dev/null 2>&1 </dev/null &").want(t, 0, "")
			if _, _, err := b.trySave(t, sandbox.SaveOptions{Files: true}); api.KindOf(err) == api.KindUnsupported {
				if _, ok := s.Report.Has(api.CapCheckpoint); !ok {
					t.Errorf("neither memory nor files: %v", err)
				}
				t.Skipf("%v", err)
			}
			c := s.restore(t, s.save(t, b, sandbox.SaveOptions{Files: true}))
			c.sh(t, "cat file; for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; done | grep -c 'sleep 100[0]' || true").want(t, 0, "it\n0\n")
		}},
	}
}

// largest is the largest file of an image.
func largest(t *testing.T, dir string) (path string, size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.Size() > size {
			path, size = filepath.Join(dir, e.Name()), st.Size()
		}
	}
	return path, size
}
