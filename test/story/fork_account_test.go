package story

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/test/tier"
)

// basesOf are the files of memory that a sandbox shares with others, by their numbers on the disk, and the
// sandboxes whose memory it uses.
func (g *garden) basesOf(id string) (files []uint64, holders []string) {
	g.t.Helper()
	entries, err := os.ReadDir(filepath.Join(g.dir, "run/gvisor", id+".bases"))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(g.dir, "run/gvisor", id+".bases", e.Name())
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			g.t.Fatal(err)
		}
		if !strings.HasSuffix(e.Name(), ".holder") {
			files = append(files, st.Ino)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			g.t.Fatal(err)
		}
		holders = append(holders, string(b))
	}
	return files, holders
}

// TestAccountsShareNoMemory: sandboxes of one account share memory, and those of two do not: nobody starts
// from a snapshot or a template of another account, or forks its sandboxes. Templates of the operator are
// for everybody, and so is their memory, unless they were saved with copied memory.
func TestAccountsShareNoMemory(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	w := &wire{t: t, g: g}
	defer w.end()
	g.must("daemon", "stop")
	w.serve()
	account := func(name string) *garden {
		as := *g
		key := strings.TrimSpace(g.must("key", "create", "--account", name, "--quiet"))
		as.env = append(slices.Clone(g.env), "HORTUS_HOST=http://"+w.addr, "HORTUS_API_KEY="+key)
		return &as
	}
	alice, bob := account("alice"), account("bob")
	create := func(who *garden, template string) string {
		t.Helper()
		return strings.TrimSpace(who.must("sandbox", "create", "--quiet", "--ttl", "10m", "--template", template))
	}
	common := func(a, b string) bool {
		x, _ := g.basesOf(a)
		y, _ := g.basesOf(b)
		return slices.ContainsFunc(x, func(n uint64) bool { return slices.Contains(y, n) })
	}

	sandbox := create(alice, "host")
	snapshot := strings.TrimSpace(alice.must("sandbox", "snapshot", "--quiet", sandbox))
	alice.must("sandbox", "snapshot", "--name", "mine", sandbox)
	for _, template := range []string{snapshot, "mine"} {
		if !common(create(alice, template), create(alice, template)) {
			t.Errorf("two sandboxes of one account from %s share nothing", template)
		}
		if r := bob.run("sandbox", "create", "--quiet", "--template", template); r.code == 0 {
			t.Errorf("another account starts from %s: %s", template, r)
		}
	}
	if r := bob.run("sandbox", "fork", sandbox); r.code == 0 {
		t.Errorf("another account forks: %s", r)
	}
	child := strings.TrimSpace(alice.must("sandbox", "fork", "--quiet", sandbox))
	if _, holders := g.basesOf(child); fmt.Sprint(holders) != fmt.Sprint([]string{sandbox}) {
		t.Errorf("a child uses the memory of %q, not of %s", holders, sandbox)
	}
	// The same name, in another account, is another template.
	own := create(bob, "host")
	bob.must("sandbox", "snapshot", "--name", "mine", own)
	if a, b := create(alice, "mine"), create(bob, "mine"); common(a, b) {
		t.Errorf("%s and %s are of two accounts, and share memory", a, b)
	}

	operator := create(g, "host")
	g.must("sandbox", "snapshot", "--name", "everybodys", operator)
	if !common(create(alice, "everybodys"), create(bob, "everybodys")) {
		t.Error("a template of the operator's is not shared, as the documents say")
	}
	g.must("sandbox", "snapshot", "--name", "copied", "--copy-memory", operator)
	for _, who := range []*garden{alice, bob} {
		if files, holders := g.basesOf(create(who, "copied")); len(files)+len(holders) > 0 {
			t.Errorf("a template with copied memory is shared: %d files, memory of %q", len(files), holders)
		}
	}
}
