package sandboxtest

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/tier"
)

// accessAttacks try to change old/ and src/deep/x, which are read-only. Each runs twice: in the
// workspace, and in a plain copy of its files, where it succeeds.
var accessAttacks = []struct{ name, script string }{
	{"write", `echo evil > src/deep/x`},
	{"append in a directory", `echo evil >> old/a`},
	{"truncate", `: > old/a`},
	{"mode", `chmod 700 src/deep/x`},
	{"time", `touch -d 2001-01-01 src/deep/x`},
	{"new file", `echo evil > old/new`},
	{"remove", `rm -f src/deep/x`},
	{"remove the directory", `rm -rf old`},
	{"rename over", `echo evil > evil; mv -f evil src/deep/x`},
	{"rename away", `mv src/deep/x src/deep/y; echo evil > src/deep/x`},
	{"rename its directory", `mv src/deep src/moved; mkdir src/deep; echo evil > src/deep/x`},
	{"rename the directory above", `mv src moved; mkdir -p src/deep; echo evil > src/deep/x`},
	{"rename a read-only directory", `mv old older; mkdir old; echo evil > old/a`},
	{"hard link", `ln src/deep/x alias && echo evil > alias`},
	{"link in place of its directory", `rm -rf src/deep; ln -s /tmp src/deep`},
	{"link to it", `ln -s src/deep/x through; echo evil > through`},
	{"descriptor of the directory", `cd src/deep; echo evil > /proc/self/cwd/x`},
	{"git", `command -v git >/dev/null || { echo evil > old/a; exit; }
		rm -rf old; git rm -q --cached -r old 2>/dev/null; echo evil > old`},
	{"unmount and mount", `unshare -rm sh -c 'umount -l src/deep/x; umount -l old; mount -o remount,bind,rw old' 2>/dev/null; echo evil > src/deep/x`},
	{"in a mount namespace", `unshare -rm sh -c 'umount -l src/deep/x; mount -o remount,bind,rw src/deep/x; echo evil > src/deep/x' || echo evil > src/deep/x`},
	{"the directory without its mounts", `mkdir -p m; unshare -rm sh -c 'mount --bind src m && echo evil > m/deep/x' || echo evil > src/deep/x`},
	{"below another overlay", `mkdir -p w m; unshare -rm sh -c 'mount -t overlay -o userxattr,lowerdir=/usr/share,upperdir=src,workdir=w o m && echo evil > m/deep/x' || echo evil > src/deep/x`},
}

func accessCases() []Case {
	return []Case{{Name: "workspace/read-only-files", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapWorkspace}, Check: func(t *testing.T, s *Suite) {
		w, _ := s.workspace(t)
		w.Access = []sandbox.PathAccess{{Path: "old", ReadOnly: true}, {Path: "src"}, {Path: "src/deep"}, {Path: "src/deep/x", ReadOnly: true}}
		if s.copied() {
			spec := s.spec()
			spec.Workspace = w
			s.wantRefused(t, "read-only files", spec)
			return
		}
		b := s.in(t, w)
		b.sh(t, `set -e
			echo more >> src/main.c; echo n > src/deep/new; rm keep; mv README READ; mkdir c; echo i > c/i; chmod +x src/main.c; cat old/a src/deep/x`).want(t, 0, "a\nx\n")
		const look = `cat old/a src/deep/x; ls old; stat -c '%a %Y %F' old/a src/deep/x; stat -c '%F' src src/deep old; `
		users := []string{""}
		if _, ok := s.Report.Has(api.CapRootIdentity); ok {
			// Root inside can try more than the user, who tries it in make soak.
			users = []string{"root"}
			if tier.Soaking() {
				users = append(users, "")
			}
		}
		for _, user := range users {
			var script strings.Builder
			script.WriteString("look() { " + look + " }\ncd /workspace; before=$(look 2>&1)\n")
			for i, a := range accessAttacks {
				// The copy is on another mount, so that no read-only one is in it.
				fmt.Fprintf(&script, "c=/tmp/copy%s%d; mkdir $c; cp -a old src $c; cd $c; plain=$(look 2>&1)\n", user, i)
				fmt.Fprintf(&script, "( %s\n) >/dev/null 2>&1 </dev/null; cd $c; [ \"$(look 2>&1)\" != \"$plain\" ] || echo '%s: the control failed'\n", a.script, a.name)
				fmt.Fprintf(&script, "cd /workspace; ( %s\n) >/dev/null 2>&1 </dev/null; cd /workspace; [ \"$(look 2>&1)\" = \"$before\" ] || echo '%s succeeded'\n", a.script, a.name)
			}
			script.WriteString("rm -rf /tmp/copy*\n")
			b.run(t, user, "sh", "-c", script.String()).want(t, 0, "")
		}
		s.kill(t, b)
		ch, err := s.Workspaces.Changes(t.Context(), w.Upper, workspace.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range ch.List {
			if c.Path == "src/deep/x" || strings.HasPrefix(c.Path, "old/") {
				t.Errorf("it is a change: %+v", c)
			}
		}
		ch.Close()

		// The next sandbox can change everything but a link that it finds in a path.
		w.Access = nil
		b = s.in(t, w)
		b.sh(t, "echo evil > src/deep/x; rm -r old; ln -s src old").want(t, 0, "")
		s.kill(t, b)
		for path, kind := range map[string]api.Kind{"old/deep": "", "none": "", "../x": api.KindInvalid, "/src": api.KindInvalid, "a/../src": api.KindInvalid} {
			spec := s.spec()
			spec.Workspace = &sandbox.Workspace{Layers: w.Layers, Upper: w.Upper, Access: []sandbox.PathAccess{{Path: path, ReadOnly: true}}}
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				s.kill(t, &Sandbox{ID: spec.ID, Machine: m})
			}
			if err == nil || kind != "" && api.KindOf(err) != kind {
				t.Errorf("read-only %s: %v", path, err)
			}
		}

		// All of it is read-only but a directory.
		w, _ = s.workspace(t)
		w.Access = []sandbox.PathAccess{{Path: ".", ReadOnly: true}, {Path: "src"}}
		b = s.in(t, w)
		b.sh(t, "echo n > src/new && echo more >> src/deep/x && mv src/main.c src/deep && cat src/new; echo x > new; echo x > old/a; mkdir d; ls").want(t, 0, "n\nREADME\nbin\nkeep\nlink\nold\nsrc\n")
	}}}
}
