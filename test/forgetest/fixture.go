package forgetest

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/test/forgeserver"
)

// Open is the constructor of an implementation.
type Open func(rest.Config) (forge.Forge, error)

// The tokens that the server knows, and one that it does not.
const (
	tokenWriter  = "tok-writer-0123456789"
	tokenAdmin   = "tok-admin-0123456789"
	tokenReader  = "tok-reader-0123456789"
	tokenUnknown = "tok-unknown-0123456789"
)

// fixture is a server with a repository, and the implementation.
type fixture struct {
	t      *testing.T
	kind   string
	open   Open
	server *forgeserver.Server
	url    string
	repo   *forgeserver.Repository
	dir    string

	mu    sync.Mutex
	waits []time.Duration
}

func newFixture(t *testing.T, kind string, open Open) *fixture {
	t.Helper()
	f := &fixture{t: t, kind: kind, open: open, dir: filepath.Join(t.TempDir(), "bare.git")}
	bare(t, f.dir)
	path := "garden/plot"
	if kind == forge.GitLab {
		path = "garden/north/plot" // a subgroup
	}
	f.repo = &forgeserver.Repository{Path: path, Dir: f.dir, Protected: []string{"main", "release"}, Hidden: true, People: []forgeserver.Person{
		{Login: "mae", Permission: "write"}, {Login: "rob", Permission: "read", Association: "MEMBER"}, {Login: "helper", Permission: "write", Bot: kind != forge.Gitea},
		{Login: "gitea-actions", Permission: "write", Bot: true},
	}}
	server, err := forgeserver.New(forgeserver.Config{
		Kind: kind, Prefix: "/forge",
		Users: map[string]forgeserver.User{
			tokenWriter: {Login: "hortus", Write: true},
			tokenAdmin:  {Login: "boss", Write: true, Admin: true},
			tokenReader: {Login: "guest"},
			"tok-blind": {Login: "stranger", Blind: true},
		},
		Repositories: []*forgeserver.Repository{
			f.repo,
			{Path: strings.Replace(path, "plot", "old", 1), Dir: f.dir, Archived: true},
			{Path: strings.Replace(path, "plot", "new", 1), Dir: f.dir, Moved: strings.Replace(path, "plot", "was", 1), NoDrafts: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.server = server
	ts := httptest.NewServer(server)
	t.Cleanup(ts.Close)
	f.url = ts.URL
	return f
}

// forge makes the implementation for a repository of the server, as a remote's URL
// names it.
func (f *fixture) forge(token, name string, change ...func(*rest.Config)) forge.Forge {
	f.t.Helper()
	host := strings.TrimPrefix(f.url, "http://")
	remote := f.url + "/forge/" + strings.Replace(f.repo.Path, "plot", name, 1) + ".git"
	l, err := forge.Locate(remote, map[string]string{host + "/forge": f.kind})
	if err != nil {
		f.t.Fatal(err)
	}
	cfg := rest.Config{Location: l, Token: token, Wait: func(ctx context.Context, d time.Duration) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waits = append(f.waits, d)
		return ctx.Err()
	}}
	for _, c := range change {
		c(&cfg)
	}
	impl, err := f.open(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return impl
}

// writer is the usual one.
func (f *fixture) writer() forge.Forge { return f.forge(tokenWriter, "plot") }

// request is the usual one, for the branch hortus/one.
func (f *fixture) request() forge.Request {
	return forge.Request{
		Source: "hortus/one", Target: "main", Title: "Mend the fence", Body: "It was broken.\n\nNow it is not.\n",
		Commit: f.hash("hortus/one"),
	}
}

// writes are the calls that were not read-only.
func (f *fixture) writes() int {
	n := 0
	for _, c := range f.server.Calls() {
		if c.Method != "GET" {
			n++
		}
	}
	return n
}

// want checks an error's kind and that it does not hold a token.
func (f *fixture) want(err error, kind api.Kind) {
	f.t.Helper()
	if got := api.KindOf(err); got != kind {
		f.t.Errorf("%v is of kind %q, want %q", err, got, kind)
	}
	if err == nil {
		return
	}
	said := err.Error() + api.HintOf(err)
	if strings.Contains(said, "tok-") {
		f.t.Errorf("a token is in the error: %s", said)
	}
	if said != strings.ToValidUTF8(said, "") || strings.ContainsAny(said, "\x00\x1b\n") {
		f.t.Errorf("the error holds control characters: %q", said)
	}
}

// bare makes a bare repository with main and branches that are one commit ahead.
func bare(t *testing.T, dir string) {
	t.Helper()
	git(t, "", "init", "-q", "--bare", "-b", "main", dir)
	tree := git(t, dir, "hash-object", "-t", "tree", "-w", "--stdin")
	first := git(t, dir, "commit-tree", "-m", "first", tree)
	git(t, dir, "update-ref", "refs/heads/main", first)
	git(t, dir, "update-ref", "refs/heads/release", first)
	git(t, dir, "update-ref", "refs/heads/hortus/empty", first)
	second := git(t, dir, "commit-tree", "-m", "second", "-p", first, tree)
	for _, name := range []string{"hortus/one", "hortus/two"} {
		git(t, dir, "update-ref", "refs/heads/"+name, second)
	}
}

func (f *fixture) hash(branch string) string {
	f.t.Helper()
	return git(f.t, f.dir, "rev-parse", "--verify", "refs/heads/"+branch)
}

// git runs git away from the settings of the user.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if dir != "" {
		args = append([]string{"--git-dir", dir}, args...)
	}
	cmd := exec.Command("git", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=g", "GIT_AUTHOR_EMAIL=g@example.org", "GIT_COMMITTER_NAME=g", "GIT_COMMITTER_EMAIL=g@example.org",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
