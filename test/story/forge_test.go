package story

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/test/forgeserver"
)

// Tokens of a hub's users. None of them may be seen anywhere.
const (
	hubToken   = "tok-5be1f0c2a97d4e38"
	readToken  = "tok-read-77c0d1e2f3a4"
	blindToken = "tok-blind-0a9b8c7d6e5f"
	wrongToken = "tok-wrong-1f2e3d4c5b6a"
)

// hub is a forge in this process, with bare repositories behind git's HTTP.
type hub struct {
	*forgeserver.Server
	t    testing.TB
	g    *garden
	kind string
	url  string
	host string
	base string
}

// newHub makes a forge whose repositories are copies of the one in dir, and a
// configuration that names it. The paths are below garden/; plot is as repositories
// mostly are.
func newHub(t testing.TB, g *garden, kind, dir string, more ...*forgeserver.Repository) *hub {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("git is not installed")
	}
	if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	h := &hub{t: t, g: g, kind: kind, base: filepath.Dir(g.dir)}
	all := append([]*forgeserver.Repository{{Path: "garden/plot", Protected: []string{"main"}, People: []forgeserver.Person{{Login: "mae", Permission: "write"}}}}, more...)
	for _, r := range all {
		r.Dir = h.bare(r.Path)
		gitIn(t, dir, "clone", "-q", "--bare", dir, r.Dir)
		if r.DefaultBranch != "" {
			gitIn(t, r.Dir, "branch", r.DefaultBranch, "main")
		}
	}
	h.Server, err = forgeserver.New(forgeserver.Config{Kind: kind, Repositories: all, Users: map[string]forgeserver.User{
		hubToken: {Login: "ada", Write: true}, readToken: {Login: "reader"}, blindToken: {Login: "blind", Write: true, Blind: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h.Server)
	t.Cleanup(srv.Close)
	g.reach(srv.URL)
	h.url, h.host = srv.URL, strings.TrimPrefix(srv.URL, "http://")
	h.token(hubToken)
	h.configure("")
	return h
}

// bare is the directory of a repository.
func (h *hub) bare(path string) string {
	return filepath.Join(h.base, "hub", strings.ReplaceAll(path, "/", "-")+".git")
}

// remote is a repository's address.
func (h *hub) remote(path string) string { return h.url + "/" + path + ".git" }

// token puts a token into the file that the configuration names.
func (h *hub) token(token string) {
	h.t.Helper()
	h.write("token", token+"\n")
}

// configure writes the configuration: the hub, and more. A daemon reads it when it
// starts.
func (h *hub) configure(more string) {
	h.t.Helper()
	path := h.write("config.toml", "[forge.\""+h.host+"\"]\nkind = \""+h.kind+"\"\ntoken-file = \"token\"\n"+more)
	h.g.env = append(h.g.env, "HORTUS_CONFIG="+path)
}

func (h *hub) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.base, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// branches lists what a bare repository has of Hortus.
func (h *hub) branches(path string) string {
	h.t.Helper()
	return strings.TrimSpace(gitIn(h.t, h.bare(path), "for-each-ref", "--format=%(refname:short)", "refs/heads/hortus"))
}

// open lists the requests of a repository that are open.
func (h *hub) open(path string) (out []forgeserver.Pull) {
	for _, p := range h.Pulls() {
		if p.Repository == path && p.State == "open" {
			out = append(out, p)
		}
	}
	return out
}

// creates is a text of the path of the call that opens a request.
func (h *hub) creates() string {
	if h.kind == forgeserver.GitLab {
		return "/merge_requests"
	}
	return "/pulls"
}

// forms are the shapes in which a token may be seen.
func forms(tokens ...string) (out []string) {
	for _, token := range tokens {
		out = append(out, token)
		for _, user := range []string{"", "oauth2:", "x-access-token:"} {
			out = append(out, base64.StdEncoding.EncodeToString([]byte(user+token)))
		}
	}
	return out
}

// unseen wants no token in a text.
func unseen(t testing.TB, where, text string) {
	t.Helper()
	for _, f := range forms(hubToken, readToken, blindToken, wrongToken) {
		if strings.Contains(text, f) {
			t.Errorf("%s holds a token", where)
		}
	}
}

// unseenOnDisk looks for tokens in every file of the data directory, and gives how
// many files hold want, which shows that it looks at all.
func (g *garden) unseenOnDisk(want string) (found int) {
	g.t.Helper()
	err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // sockets, and what ends in between
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		unseen(g.t, path, string(b))
		if bytes.Contains(b, []byte(want)) {
			found++
		}
		return nil
	})
	if err != nil {
		g.t.Error(err)
	}
	return found
}
