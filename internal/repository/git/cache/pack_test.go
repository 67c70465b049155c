package cache

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

// TestReplace: the trees that are written here are those that git writes for the same files, in both formats of objects, whatever
// becomes a directory or stops to be one.
func TestReplace(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			src := t.TempDir()
			gittest.Git(t, src, "init", "-q", "-b", "main", "--object-format="+format, "--template=")
			gittest.Git(t, src, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first")
			r := fetch(t, newCache(t), src)
			base := head(t, r)
			// Names whose order depends on whether they are directories.
			names := []string{"a", "a.b", "a-b", "a0", "a/a", "a/b", "a/b/c", "b", "b/a.b", "b/a", "b/a/a", "ab/c", "ä/ö", "z"}
			random := rand.New(rand.NewPCG(1, 2))
			files := map[string]string{}
			parent, steps := base.Hash, 12
			for i := range steps {
				next := maps.Clone(files)
				for range 4 {
					p := names[random.IntN(len(names))]
					if _, ok := next[p]; ok && random.IntN(2) == 0 || i == steps-1 {
						delete(next, p)
						continue
					}
					for q := range next { // a path is a file or a directory
						if strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
							delete(next, q)
						}
					}
					next[p] = fmt.Sprintf("%s %d\n", p, random.IntN(3))
				}
				if i == steps-1 {
					clear(next)
				}
				var changes []Change
				for p := range files {
					if _, ok := next[p]; !ok {
						changes = append(changes, remove(p))
					}
				}
				for p, text := range next {
					if files[p] != text {
						changes = append(changes, file(p, text))
					}
				}
				res, err := r.Commit(gittest.Context(t), request(parent, changes...))
				if err != nil || len(res.Refused) > 0 || res.Empty != maps.Equal(files, next) {
					t.Fatalf("from %q to %q: %+v, %v", files, next, res, err)
				}
				if want := treeByGit(t, src, next); res.Tree != want {
					t.Fatalf("from %q to %q: the tree is %s, that of git %s", files, next, res.Tree, want)
				}
				if !res.Empty {
					parent = res.Hash
				}
				files = next
			}
			if out := gittest.Git(t, r.dir, "fsck", "--full", "--strict", parent); strings.Contains(out, "error") || strings.Contains(out, "missing") {
				t.Error(out)
			}
		})
	}
}

// treeByGit has git write a tree.
func treeByGit(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	index := filepath.Join(t.TempDir(), "index")
	run := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), append(os.Environ(), "GIT_INDEX_FILE="+index)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	var info strings.Builder
	for _, p := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&info, "100644 %s\t%s\x00", run(files[p], "hash-object", "-w", "--stdin"), p)
	}
	run(info.String(), "update-index", "-z", "--index-info")
	return run("", "write-tree")
}

// TestJoin: many commits are few packs, and none is lost that no branch has.
func TestJoin(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": "1\n"}))
	base := head(t, r).Hash
	var made []string
	for i := range maxPacks + 5 {
		made = append(made, commitOn(t, r, base, file("b", fmt.Sprintln(i))))
	}
	packs, err := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) > 10 {
		t.Errorf("%d packs, %v", len(packs), err)
	}
	for i, commit := range made {
		if b, err := r.ReadFile(gittest.Context(t), commit, "b", 10); err != nil || string(b) != fmt.Sprintln(i) {
			t.Fatalf("commit %d has %q, %v", i, b, err)
		}
	}
	// Control: what git is asked to remove is lost.
	gittest.Git(t, r.dir, "repack", "-a", "-d", "-q")
	if _, err := r.ReadFile(gittest.Context(t), made[0], "b", 10); err == nil {
		t.Error("the control has the commit still")
	}
}

// TestDamagedTree: a tree with names or modes that git does not write is refused.
func TestDamagedTree(t *testing.T) {
	hash := strings.Repeat("\x01", 20)
	for _, bad := range []string{"100644 a", "100644 a\x00short", "100644\x00" + hash, "100644 a/b\x00" + hash, "100644 \x00" + hash, "120001 a\x00" + hash, "0 a\x00" + hash} {
		if nodes, err := parseTree([]byte(bad), 20); err == nil {
			t.Errorf("%q: %v", bad, nodes)
		}
	}
	nodes, err := parseTree([]byte("40000 d\x00"+hash+"100664 f\x00"+hash+"0100644 g\x00"+hash), 20)
	if err != nil || len(nodes) != 3 || nodes[0].mode != modeTree || nodes[1].mode != Regular || nodes[2].mode != Regular {
		t.Errorf("control: %v, %v", nodes, err)
	}
}

// TestPackIsChecked: what is encoded here is checked by git before it is in the repository.
func TestPackIsChecked(t *testing.T) {
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"a": "1\n"}))
	base := head(t, r).Hash
	missing := strings.Repeat("1", 40)
	for name, c := range map[string]struct {
		nodes []node
		good  bool
	}{
		"control":        {[]node{{Regular, "b", ""}}, true},
		"git":            {[]node{{Regular, ".git", ""}}, false},
		"another case":   {[]node{{Regular, ".GiT", ""}}, false},
		"short name":     {[]node{{Regular, "git~1", ""}}, false},
		"ignored by HFS": {[]node{{Regular, ".g\u200cit", ""}}, false},
		"parent":         {[]node{{Regular, "..", ""}}, false},
		"two components": {[]node{{Regular, "a/b", ""}}, false},
		"empty":          {[]node{{Regular, "", ""}}, false},
		"twice":          {[]node{{Regular, "b", ""}, {Symlink, "b", ""}}, false},
		"missing":        {[]node{{Regular, "b", missing}}, false},
		"not a tree":     {[]node{{modeTree, "b", ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := gittest.Context(t)
			lock, err := r.lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			d, err := r.draft(ctx, lock, base)
			if err != nil {
				t.Fatal(err)
			}
			defer d.end()
			blob, err := d.new.addData(kindBlob, []byte("content of "+name))
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.nodes {
				c.nodes[i].hash = cmp.Or(c.nodes[i].hash, blob)
			}
			if d.res.Tree, err = d.new.addTree(c.nodes); err != nil {
				t.Fatal(err)
			}
			before := gittest.Git(t, r.dir, "count-objects", "-v")
			err = d.commit(ctx, request(base))
			if added := gittest.Git(t, r.dir, "count-objects", "-v") != before; (err == nil) != c.good || added != c.good || !c.good && api.KindOf(err) != api.KindDenied {
				t.Errorf("added: %v, %v", added, err)
			}
		})
	}
}
