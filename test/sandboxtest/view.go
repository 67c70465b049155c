package sandboxtest

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// viewAttacks change src/deep/x or what is in old/, below the working directory. Each runs in
// the view, where it must fail, and as a control in /workspace.
var viewAttacks = []struct{ name, script string }{
	{"write", `echo evil > src/deep/x`},
	{"append", `echo evil >> old/a`},
	{"mode", `chmod 700 src/deep/x`},
	{"time", `touch -d 2001-01-01 src/deep/x`},
	{"new file", `echo evil > old/new`},
	{"new directory", `mkdir old/dir`},
	{"remove", `rm -f old/b`},
	{"rename", `mv src/deep/x src/deep/y`},
	{"hard link", `ln src/deep/x old/alias`},
	{"remount", `mount -o remount,bind,rw . 2>/dev/null; echo evil > src/deep/x`},
	{"in a mount namespace", `unshare -rm sh -c 'mount -o remount,bind,rw .; echo evil > src/deep/x' 2>/dev/null || echo evil > src/deep/x`},
	{"through a link", `ln -sfn "$PWD/src" /tmp/through; echo evil > /tmp/through/deep/x`},
	{"below an overlay", `d=$PWD; mkdir -p /tmp/o$$/w /tmp/o$$/m; unshare -rm sh -c "mount -t overlay -o userxattr,lowerdir=/usr/share,upperdir=$d/src,workdir=/tmp/o$$/w o /tmp/o$$/m && echo evil > /tmp/o$$/m/deep/x" 2>/dev/null || echo evil > src/deep/x`},
}

func viewCases() []Case {
	return []Case{{Name: "workspace/read-only-view", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapWorkspace}, Check: func(t *testing.T, s *Suite) {
		if s.copied() {
			t.Skip("the workspace is a copy, which is mounted once")
		}
		w, _ := s.workspace(t)
		plain := s.in(t, w)
		plain.sh(t, "[ ! -e "+birth.ViewDir+" ]").want(t, 0, "") // it was not requested
		s.kill(t, plain)
		w.View = true
		b := s.in(t, w)
		b.sh(t, "cd "+birth.ViewDir+" && cat src/deep/x link && stat -c '%u %g' . src/deep/x && ls").
			want(t, 0, "x\nread me\n1000 1000\n1000 1000\nREADME\nbin\nkeep\nlink\nold\nsrc\n")
		b.sh(t, "set -e; v="+birth.ViewDir+`
			echo new > src/new; cat $v/src/new; cat $v/keep; echo changed > keep; cat $v/keep; rm README; [ ! -e $v/README ]; mv bin cellar; ls $v/cellar`).
			want(t, 0, "new\nkeep\nchanged\nrun\n")
		users := []string{""}
		if _, ok := s.Report.Has(api.CapRootIdentity); ok {
			users = []string{"", "root"}
		}
		const look = `look() { cat old/* src/deep/*; ls old src/deep; stat -c '%a %Y %h %F' src/deep/x; }; `
		for _, user := range users {
			var script strings.Builder
			for _, a := range viewAttacks {
				fmt.Fprintf(&script, "rm -rf /workspace/old /workspace/src/deep; mkdir /workspace/old /workspace/src/deep; cd /workspace; echo a > old/a; echo b > old/b; echo x > src/deep/x\n")
				for _, in := range []struct{ dir, test, says string }{{birth.ViewDir, "=", "succeeded"}, {"/workspace", "!=", "has a control that failed"}} {
					fmt.Fprintf(&script, "cd /workspace; before=$(%slook 2>&1); cd %s; ( %s\n) >/dev/null 2>&1 </dev/null; cd /workspace; [ \"$(%slook 2>&1)\" %s \"$before\" ] || echo '%s %s'\n",
						look, in.dir, a.script, look, in.test, a.name, in.says)
				}
			}
			b.run(t, user, "sh", "-c", script.String()).want(t, 0, "")
		}
		s.kill(t, b)

		// Files that are read-only are not more writable there, and it is for durable files only.
		w.Access = []sandbox.PathAccess{{Path: "src", ReadOnly: true}}
		b = s.in(t, w)
		b.sh(t, "before=$(cat src/deep/x); echo more > src/deep/x || echo no; echo more > "+birth.ViewDir+"/src/deep/x || echo no; [ \"$(cat src/deep/x)\" = \"$before\" ]").want(t, 0, "no\nno\n")
		s.kill(t, b)
		spec := s.spec()
		spec.Workspace = &sandbox.Workspace{Layers: w.Layers, View: true}
		m, err := s.Backend.Start(t.Context(), spec)
		if err == nil {
			s.kill(t, &Sandbox{ID: spec.ID, Machine: m})
		}
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("a view of files that are not durable: %v", err)
		}
	}}}
}
