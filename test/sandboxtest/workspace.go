package sandboxtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
)

// userIs1000 filters output: the uid and the gid of commands are 1000 in it, whatever they are in a pod.
const userIs1000 = ` | sed "s/ $(id -u) / 1000 /; s/^$(id -u) $(id -g)$/1000 1000/"`

// repository makes a layer with a small git repository, as a task's is made.
func (s *Suite) repository(t *testing.T) layer.Digest {
	t.Helper()
	if s.Store == nil || s.Workspaces == nil {
		t.Fatal("sandboxtest: the fixture of a backend with workspaces needs their store")
	}
	digest := layer.Digest(fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(t.Name()))))
	_, err := s.Store.Put(t.Context(), digest, func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		for _, d := range []string{"", "src", "src/deep", "old", "bin"} {
			if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
				return layer.Tree{}, err
			}
		}
		for name, text := range map[string]string{"README": "read me\n", "src/main.c": "int main() {}\n", "src/deep/x": "x\n",
			"old/a": "a\n", "old/b": "b\n", "bin/run": "#!/bin/sh\necho ran\n", "keep": "keep\n"} {
			mode := os.FileMode(0o644)
			if strings.HasPrefix(name, "bin/") {
				mode = 0o755
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), mode); err != nil {
				return layer.Tree{}, err
			}
		}
		if err := os.Symlink("README", filepath.Join(root, "link")); err != nil {
			return layer.Tree{}, err
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"},
			{"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "first"}} {
			cmd := exec.CommandContext(ctx, "git", args...)
			cmd.Dir, cmd.Env = root, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
			if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
				break // without git it is only files
			} else if err != nil {
				return layer.Tree{}, fmt.Errorf("git %q: %w: %s", args, err, out)
			}
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// fingerprint is every name, mode, owner, time and byte of a layer.
func (s *Suite) fingerprint(t *testing.T, d layer.Digest) string {
	t.Helper()
	tree, err := s.Store.Resolve(d)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	err = filepath.WalkDir(tree.Root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %o %d %d %d %d %v\n", p, st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim)
		if !e.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// copied reports whether a sandbox has a copy of its workspace.
func (s *Suite) copied() bool { return s.Backend.Capabilities().Copied }

// workspace makes a workspace over a repository.
func (s *Suite) workspace(t *testing.T) (*sandbox.Workspace, layer.Digest) {
	t.Helper()
	d := s.repository(t)
	id, err := s.Workspaces.Create(t.Context(), "", []layer.Digest{d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Workspaces.Remove(context.Background(), id, "the test is over"); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	return &sandbox.Workspace{Layers: []layer.Digest{d}, Upper: id}, d
}

func (s *Suite) in(t *testing.T, w *sandbox.Workspace) *Sandbox {
	t.Helper()
	return s.start(t, func(p *sandbox.Spec) { p.Workspace = w })
}

func workspaceCases() []Case {
	needs := []api.Capability{api.CapStart, api.CapWorkspace}
	return []Case{
		{Name: "workspace/refused-where-it-is-missing", Plain: true, PerUser: true, Needs: needs[:1], Check: func(t *testing.T, s *Suite) {
			if _, ok := s.Report.Has(api.CapWorkspace); ok {
				t.Skip("this backend has it")
			}
			spec := s.spec()
			spec.Workspace = &sandbox.Workspace{Layers: s.Layers}
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				m.Kill(context.Background())
			}
			if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), string(api.CapWorkspace)) {
				t.Errorf("%v; want kind unsupported, naming the capability", err)
			}
		}},
		{Name: "workspace/everything-can-be-changed", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, d := s.workspace(t)
			before := s.fingerprint(t, d)
			b := s.in(t, w)
			b.sh(t, "pwd; echo $HOME; stat -c '%u %g' /workspace README src/deep/x link .git 2>/dev/null | sort -u"+userIs1000).
				want(t, 0, "/workspace\n/home/user\n1000 1000\n")
			b.sh(t, `set -e
				test "$(cat link)" = "read me"; test "$(bin/run)" = ran
				echo more >> README; rm old/a; chmod 600 keep; chmod +x src/main.c
				mv src source; test ! -e src; cat source/deep/x
				ln -s nowhere dangling; ln README hard; mkdir new; echo n > new/file
				rm -r old; mkdir old; ls old; rm link; echo file > link`).want(t, 0, "x\n")
			if r := b.sh(t, "command -v git"); r.Code() == 0 {
				b.sh(t, "git status --porcelain --untracked-files=no").
					want(t, 0, " M README\n T link\n D old/a\n D old/b\n D src/deep/x\n D src/main.c\n")
			}
			s.kill(t, b)
			if s.fingerprint(t, d) != before {
				t.Error("the layer was changed")
			}
		}},
		{Name: "workspace/outlives-its-sandbox", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			a := s.in(t, w)
			a.sh(t, "echo kept > new; rm README; rm -r old; head -c 30000000 /dev/urandom > large; sha256sum large > sum; echo gone > /tmp/x").want(t, 0, "")
			s.kill(t, a)
			b := s.in(t, w)
			b.sh(t, "cat new; ls -d README old /tmp/x 2>/dev/null; sha256sum -c sum").want(t, 0, "kept\nlarge: OK\n")
		}},
		{Name: "workspace/one-writer", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			a := s.in(t, w)
			spec := s.spec()
			spec.Workspace = w
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				m.Kill(context.Background())
			}
			if api.KindOf(err) != api.KindConflict {
				t.Errorf("a second writer: %v; want kind conflict", err)
			}
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("the refused start left %q", left)
			}
			if _, err := s.Workspaces.Changes(t.Context(), w.Upper, workspace.Limits{}); api.KindOf(err) != api.KindConflict {
				t.Errorf("changes while it is written to: %v; want kind conflict", err)
			}
			if err := s.Workspaces.Remove(t.Context(), w.Upper, ""); api.KindOf(err) != api.KindConflict {
				t.Errorf("removed while it is written to: %v; want kind conflict", err)
			}
			s.kill(t, a)
			s.in(t, w)
		}},
		{Name: "workspace/wrong-layers", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			for name, c := range map[string]struct {
				w    sandbox.Workspace
				want api.Kind
			}{
				"no layers":        {sandbox.Workspace{Upper: w.Upper}, api.KindInvalid},
				"other layers":     {sandbox.Workspace{Upper: w.Upper, Layers: append(w.Layers, w.Layers...)}, api.KindInvalid},
				"a layer of roots": {sandbox.Workspace{Layers: s.Layers}, api.KindInvalid},
				"unknown layer":    {sandbox.Workspace{Layers: []layer.Digest{"sha256-" + layer.Digest(strings.Repeat("0", 64))}}, api.KindNotFound},
				"unknown upper":    {sandbox.Workspace{Upper: api.NewWorkspaceID(), Layers: w.Layers}, api.KindNotFound},
				"a path":           {sandbox.Workspace{Upper: "../../etc", Layers: w.Layers}, api.KindInvalid},
			} {
				spec := s.spec()
				spec.Workspace = &c.w
				m, err := s.Backend.Start(t.Context(), spec)
				if err == nil {
					m.Kill(context.Background())
				}
				if api.KindOf(err) != c.want {
					t.Errorf("%s: %v; want kind %s", name, err, c.want)
				}
			}
		}},
		{Name: "workspace/a-gate-sees-base-and-changes-alone", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			w, d := s.workspace(t)
			a := s.in(t, w)
			a.sh(t, `set -e
				echo more >> README; rm -r old; mv src source; chmod +x keep; rm link; mkdir -p link/in; echo f > link/in/f
				rm bin/run; rmdir bin; echo now a file > bin; ln -s README again; mkdir empty; mkfifo pipe; [ ! -d .git ] || echo x > .git/evil`).want(t, 0, "")
			s.kill(t, a)
			ch, err := s.Workspaces.Changes(t.Context(), w.Upper, workspace.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			var got strings.Builder
			for _, c := range ch.List {
				fmt.Fprintf(&got, "%s %t %s %d\n", c.Path, c.Delete, c.Mode, c.Size)
			}
			const want = "README false regular 13\nagain false symlink 6\nbin false regular 11\nbin/run true  0\nkeep false executable 5\n" +
				"link true  0\nlink/in/f false regular 2\nold/a true  0\nold/b true  0\nsource/deep/x false regular 2\nsource/main.c false regular 14\n" +
				"src/deep/x true  0\nsrc/main.c true  0\n"
			if got.String() != want {
				t.Errorf("changes:\n%s\nwant:\n%s", &got, want)
			}
			// A pipe is refused, or a kernel of the sandbox's own, or the machine of a copy, has kept it to itself.
			if refused := len(ch.Refused); !ch.Complete || refused > 1 || refused == 1 && ch.Refused[0].Path != "pipe" || refused == 0 && !s.OwnKernel && !s.copied() {
				t.Errorf("refused: %+v, complete %t", ch.Refused, ch.Complete)
			}
			delta, err := workspace.Delta(t.Context(), s.Store, []layer.Digest{d}, ch.List)
			if err != nil {
				t.Fatal(err)
			}
			ch.Close()
			before := s.fingerprint(t, d) + s.fingerprint(t, delta)
			gate := &sandbox.Workspace{Layers: []layer.Digest{d, delta}}
			g := s.in(t, gate)
			const look = `find . -path ./.git -prune -o -printf '%p %y %U %l\n' | sort` + userIs1000 + `; cat README bin link/in/f again; test -x keep && echo exec; ls .git | grep evil`
			g.sh(t, look).want(t, 1, `. d 1000 
./README f 1000 
./again l 1000 README
./bin f 1000 
./keep f 1000 
./link d 1000 
./link/in d 1000 
./link/in/f f 1000 
./source d 1000 
./source/deep d 1000 
./source/deep/x f 1000 
./source/main.c f 1000 
read me
more
now a file
f
read me
more
exec
`)
			if tmpfsAttributes() {
				g.sh(t, "echo x > README && rm -r source && mkdir source && ls source").want(t, 0, "")
			} else {
				t.Log("no directory is removed: this kernel's tmpfs keeps no user attributes (Linux 6.6 does)")
				g.sh(t, "echo x > README && rm source/main.c && ls source").want(t, 0, "deep\n")
			}
			s.kill(t, g)
			if s.fingerprint(t, d)+s.fingerprint(t, delta) != before {
				t.Error("the gate changed a layer")
			}
			s.in(t, gate).sh(t, "head -1 README; ls source").want(t, 0, "read me\ndeep\nmain.c\n")
		}},
		{Name: "workspace/root-inside", PerUser: true, Needs: append(needs, api.CapRootIdentity), Check: func(t *testing.T, s *Suite) {
			w, _ := s.workspace(t)
			a := s.in(t, w)
			a.run(t, "root", "sh", "-c", "echo r > of-root; chmod 600 of-root; cp /bin/true suid; chmod 4755 suid; echo >> README; chown 1000:1000 README; chown 7:8 keep").want(t, 0, "")
			a.sh(t, "cat of-root 2>/dev/null || echo denied; stat -c '%u %g' of-root keep README").want(t, 0, "denied\n0 0\n7 8\n1000 1000\n")
			s.kill(t, a)
			if s.copied() {
				s.in(t, w).sh(t, "stat -c '%u %g %a' of-root keep suid").want(t, 0, "1000 1000 644\n1000 1000 644\n1000 1000 755\n")
				return
			}
			for name, want := range map[string]uint32{"of-root": 0, "keep": 7, "README": 1000} {
				var st unix.Stat_t
				if err := unix.Lstat(filepath.Join(s.Workspaces.Dir(), string(w.Upper), "upper", name), &st); err != nil || st.Uid != want {
					t.Errorf("%s belongs to %d on the disk, %v; want %d: uppers are stored unshifted", name, st.Uid, err, want)
				}
			}
			s.in(t, w).sh(t, "stat -c '%u %g' of-root keep README").want(t, 0, "0 0\n7 8\n1000 1000\n")
		}},
		{Name: "workspace/is-bounded", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			if s.copied() {
				t.Skip("the workspace is a copy, whose size is checked when it is stored")
			}
			// Each stops by itself at some time, so that a test that fails leaves room
			// for others.
			for name, script := range map[string]string{
				"bytes":        `head -c 1G /dev/zero > fill`,
				"small files":  `i=0; while test $i -lt 2000; do mkdir $(seq -f d%.0f $i $((i+99))); e=$((i+100)); while test $i -lt $e; do for j in 0 1 2 3 4 5 6 7 8 9; do : > d$i/$j; done; i=$((i+1)); done; done`,
				"without name": `exec 3> x; rm x; head -c 1G /dev/zero >&3`,
				"closed dir":   `mkdir d; exec 3> d/x; chmod 0 d; head -c 1G /dev/zero >&3`,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w, _ := s.workspace(t)
					b := s.start(t, func(p *sandbox.Spec) { p.Workspace, p.Limits.DiskBytes = w, 16<<20 })
					if r, err := b.try(t, "", envd.StartOptions{}, "sh", "-c", script+"; sleep 1000"); err == nil {
						t.Fatalf("it ended by itself: %+v", r)
					}
					select {
					case <-b.Machine.Done():
					case <-time.After(patience.Of(60 * time.Second)):
						t.Fatal("it is still there")
					}
					if got := b.Machine.Cause(); got != api.CauseDisk {
						t.Errorf("cause %q; want %q", got, api.CauseDisk)
					}
				})
			}
		}},
	}
}

// tmpfsAttributes reports whether this kernel's tmpfs keeps user attributes, without
// which an overlay on one cannot remove a directory of a layer.
func tmpfsAttributes() bool {
	fd, err := unix.MemfdCreate("hortus-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, "user.hortus", []byte("1"), 0) == nil
}
