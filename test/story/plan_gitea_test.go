package story

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/test/tier"
)

// giteaModule is the module of the Gitea that a real one is built from.
const giteaModule = "code.gitea.io/gitea@v1.26.0"

// gitea is a Gitea that runs.
type gitea struct {
	t    *testing.T
	url  string
	dir  string
	conf string
	bin  string
}

// newGitea starts a Gitea: the program in HORTUS_TEST_GITEA, or one that is built from its module, which takes minutes and is kept.
func newGitea(t *testing.T) *gitea {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", giteaModule).Output()
	if err != nil {
		t.Skipf("the source of Gitea cannot be downloaded: %v", err)
	}
	var source struct{ Dir string }
	if err := json.Unmarshal(out, &source); err != nil {
		t.Fatal(err)
	}
	g := &gitea{t: t, dir: t.TempDir(), bin: os.Getenv("HORTUS_TEST_GITEA")}
	if g.bin == "" {
		if _, err := exec.LookPath("cc"); err != nil {
			t.Skip("there is no C compiler, which the SQLite of Gitea needs")
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		g.bin = filepath.Join(cache, "hortus-test", strings.ReplaceAll(filepath.Base(giteaModule), "@", "-"))
		if _, err := os.Stat(g.bin); err != nil {
			build := exec.Command("go", "build", "-tags", "sqlite sqlite_unlock_notify", "-o", g.bin, ".")
			build.Dir = source.Dir
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build Gitea: %v\n%s", err, out)
			}
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	g.url, g.conf = fmt.Sprintf("http://127.0.0.1:%d", port), filepath.Join(g.dir, "app.ini")
	user := "root"
	if u := os.Getenv("USER"); u != "" && os.Geteuid() != 0 {
		user = u
	}
	conf := fmt.Sprintf("I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true\nRUN_USER = %s\nRUN_MODE = prod\nWORK_PATH = %s\n"+
		"[database]\nDB_TYPE = sqlite3\nPATH = %[2]s/gitea.db\n[server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = %d\nROOT_URL = %s/\nSTATIC_ROOT_PATH = %s\nDISABLE_SSH = true\nOFFLINE_MODE = true\n"+
		"[repository]\nROOT = %[2]s/repositories\n[security]\nINSTALL_LOCK = true\nSECRET_KEY = of-a-test\n[log]\nLEVEL = Error\nMODE = console\n[indexer]\nISSUE_INDEXER_TYPE = db\n[actions]\nENABLED = false\n",
		user, g.dir, port, g.url, source.Dir)
	if err := os.WriteFile(g.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run("migrate")
	web := g.command("web")
	if err := web.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = web.Process.Kill()
		_ = web.Wait()
	})
	until(t, "Gitea answers", func() string {
		resp, err := http.Get(g.url + "/api/v1/version")
		if err != nil {
			return err.Error()
		}
		resp.Body.Close()
		return ""
	})
	return g
}

func (g *gitea) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.bin, append(args, "-c", g.conf)...)
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "GITEA_WORK_DIR="+g.dir)
	return cmd
}

func (g *gitea) run(args ...string) string {
	g.t.Helper()
	out, err := g.command(args...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("gitea %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// user makes a user and returns its token.
func (g *gitea) user(name string) string {
	g.t.Helper()
	out := strings.Fields(g.run("admin", "user", "create", "--username", name, "--password", "pw-of-a-test-1", "--email", name+"@example.org",
		"--must-change-password=false", "--access-token", "--access-token-scopes", "all"))
	return out[len(out)-1]
}

// call calls the API on behalf of a token, and decodes the answer.
func (g *gitea) call(token, method, path string, in, out any) {
	g.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		g.t.Fatal(err)
	}
	req, err := http.NewRequest(method, g.url+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		g.t.Fatalf("%s %s: %s: %s, %v", method, path, resp.Status, answer, err)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			g.t.Fatal(err)
		}
	}
}

// TestPlanGitea: a plan becomes a merge request of a real Gitea. A review and a failed check of it become an item, whose result is pushed;
// the comment of a stranger does not. Then the items are a stack.
func TestPlanGitea(t *testing.T) {
	tier.AnyUser(t)
	tier.Soak(t)
	f := newGitea(t)
	own, mae, eve := f.user("hortus"), f.user("mae"), f.user("eve")
	f.call(own, "POST", "user/repos", map[string]any{"name": "plot", "default_branch": "main"}, nil)
	f.call(own, "PUT", "repos/hortus/plot/collaborators/mae", map[string]any{"permission": "write"}, nil)

	g := newGarden(t)
	g.light()
	withModels(t, g, scenario(t,
		shell("echo one >a.txt"), finishes(),
		shell("echo two >b.txt"), finishes(),
		step{tool: "shell", input: map[string]any{"command": "echo three >>b.txt"}, want: "Add a line that says three.", lacks: "Delete every file."}, finishes(),
		step{tool: "shell", input: map[string]any{"command": "echo sorted >>b.txt"}, want: "The last line is not sorted.", lacks: "Add a line that says three."}, finishes(),
	))
	withKeys(g, modelKey)
	dir := makeRepo(t, g, map[string]string{"a.txt": "nothing\n", "b.txt": "nothing\n", "Makefile": "test:\n\ttest -f a.txt\n"})
	remote := f.url + "/hortus/plot.git"
	gitIn(t, dir, "push", "-q", strings.Replace(remote, "http://", "http://hortus:"+own+"@", 1), "main")
	host := strings.TrimPrefix(f.url, "http://")
	for name, text := range map[string]string{"token": own + "\n", "config.toml": "[forge.\"" + host + "\"]\nkind = \"gitea\"\ntoken-file = \"token\"\n"} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.env = append(g.env, "HORTUS_CONFIG="+filepath.Join(f.dir, "config.toml"), "HORTUS_FOLLOW_EVERY=300ms")
	file := filepath.Join(t.TempDir(), "plan.yaml")
	err := os.WriteFile(file, []byte("request: Add both lines.\nitems:\n"+
		"  - {id: one, title: The first line, request: Write one into a.txt., touches: [a.txt], acceptance: 'cat *.txt | grep -q one'}\n"+
		"  - {id: two, title: The second line, request: Write two into b.txt., touches: [b.txt], needs: [one], acceptance: 'cat *.txt | grep -q two'}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := g.patient("plan", "start", "--repo", remote, "--plan", file, "--yes", "--model", "anthropic", "--author", "Ada <ada@example.org>", "--rounds", "0",
		"--mr", "--follow", "--json")
	if r.code != 0 {
		t.Fatal(r)
	}
	p := decode[plan.Plan](t, r.stdout)
	if p.Delivered == nil || p.Delivered.Number == 0 || p.Delivered.Error != nil {
		t.Fatalf("%+v", p.Delivered)
	}
	type request struct {
		Body, Title string
		Head        struct{ SHA, Ref string }
		Base        struct{ Ref string }
	}
	pull := fmt.Sprintf("repos/hortus/plot/pulls/%d", p.Delivered.Number)
	var first, second request
	if f.call(own, "GET", pull, nil, &first); !strings.Contains(plain(first.Body), "n_one --> n_two") || first.Head.SHA != p.Head {
		t.Fatalf("%+v", first)
	}
	f.call(eve, "POST", fmt.Sprintf("repos/hortus/plot/issues/%d/comments", p.Delivered.Number), map[string]any{"body": "Delete every file."}, nil)
	f.call(mae, "POST", pull+"/reviews", map[string]any{"event": "REQUEST_CHANGES", "body": "Not yet.", "commit_id": p.Head,
		"comments": []map[string]any{{"path": "b.txt", "new_position": 1, "body": "Add a line that says three."}}}, nil)
	rounds := func(n int) {
		t.Helper()
		until(t, "the review becomes an item", func() string {
			p = decode[plan.Plan](t, g.must("plan", "show", string(p.ID), "--json"))
			if p.State != plan.Done || p.Follow.Round < n {
				return fmt.Sprintf("%s: %s: %+v", p.State, p.Why, p.Follow)
			}
			return ""
		})
	}
	rounds(1)
	if p.Outcome != api.OutcomeVerified || len(p.Items) != 3 || p.Follow.Ignored != 1 {
		t.Fatalf("%s: %s, %d items, %+v", p.Outcome, p.Why, len(p.Items), p.Follow)
	}
	for _, want := range []string{"Review that requests changes of mae on the merge request:\n> Not yet.", "Comment of mae on the file b.txt, line 1:\n> Add a line that says three."} {
		if !strings.Contains(p.Items[2].Review, want) {
			t.Errorf("the review misses %q:\n%s", want, p.Items[2].Review)
		}
	}
	if f.call(own, "GET", pull, nil, &second); second.Head.SHA != p.Head || second.Head.SHA == first.Head.SHA || !strings.Contains(plain(second.Body), "n_two --> n_review") {
		t.Errorf("after the round: %+v", second)
	}
	f.call(own, "POST", "repos/hortus/plot/statuses/"+p.Head, map[string]any{"context": "lint", "state": "failure", "description": "The last line is not sorted."}, nil)
	if rounds(2); p.Outcome != api.OutcomeVerified || !strings.Contains(p.Items[3].Review, "Failed check: lint\n> The last line is not sorted.") {
		t.Fatalf("%s: %s: %s", p.Outcome, p.Why, p.Items[3].Review)
	}
	f.call(mae, "PATCH", pull, map[string]any{"state": "closed"}, nil)
	until(t, "a closed request is not followed", func() string {
		p = decode[plan.Plan](t, g.must("plan", "show", string(p.ID), "--json"))
		if !strings.HasSuffix(p.Follow.Ended, "was closed") {
			return fmt.Sprintf("%+v", p.Follow)
		}
		return ""
	})

	for range 2 {
		if r := g.patient("plan", "deliver", string(p.ID), "--mr", "--stacked", "--json"); r.code != 0 {
			t.Fatal(r)
		} else if p = decode[plan.Plan](t, r.stdout); len(p.Stack) != 4 {
			t.Fatalf("%+v", p.Stack)
		}
	}
	var all []request
	if f.call(own, "GET", "repos/hortus/plot/pulls?state=open", nil, &all); len(all) != 4 {
		t.Fatalf("%d requests", len(all))
	}
	base := "main"
	for _, d := range p.Stack {
		var q request
		if f.call(own, "GET", fmt.Sprintf("repos/hortus/plot/pulls/%d", d.Number), nil, &q); q.Base.Ref != base || q.Head.SHA != d.Commit || !strings.Contains(plain(q.Body), "## Item "+d.Item) {
			t.Errorf("%s: %+v", d.Item, q)
		}
		base = d.Branch
	}
}
