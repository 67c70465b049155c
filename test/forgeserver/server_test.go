package forgeserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=g", "GIT_AUTHOR_EMAIL=g@example.org", "GIT_COMMITTER_NAME=g", "GIT_COMMITTER_EMAIL=g@example.org",
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func call(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A program clones, pushes and opens a request with one remote's URL.
func TestPushAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bare.git")
	must(t, "", "init", "-q", "--bare", "-b", "main", dir)
	s, err := New(Config{Kind: GitLab, Prefix: "/f", Users: map[string]User{"w": {Login: "w", Write: true}, "r": {Login: "r"}},
		Repositories: []*Repository{{Path: "a/b/c", Dir: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	defer ts.Close()
	remote := func(token string) string {
		return strings.Replace(ts.URL, "://", "://x:"+token+"@", 1) + "/f/a/b/c.git"
	}
	work := filepath.Join(t.TempDir(), "work")
	must(t, "", "init", "-q", "-b", "main", work)
	must(t, work, "commit", "-q", "--allow-empty", "-m", "first")
	must(t, work, "push", "-q", remote("w"), "main", "main:refs/heads/hortus/x")
	if out, err := git(t, work, "push", remote("r"), "main:refs/heads/hortus/y"); err == nil {
		t.Errorf("who may only read pushed: %s", out)
	}
	for _, token := range []string{"", "wrong"} {
		if out, err := git(t, "", "ls-remote", remote(token)); err == nil {
			t.Errorf("the token %q reads: %s", token, out)
		}
	}
	if out := must(t, "", "ls-remote", remote("r")); !strings.Contains(out, "refs/heads/hortus/x") || strings.Contains(out, "hortus/y") {
		t.Errorf("the repository has %s", out)
	}
	api := ts.URL + "/f/api/v4/projects/a%2Fb%2Fc/merge_requests"
	open := `{"source_branch":"hortus/x","target_branch":"main","title":"T"}`
	code, body := call(t, "POST", api, "w", open)
	var got struct {
		IID   int    `json:"iid"`
		SHA   string `json:"sha"`
		State string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 201 || got.IID != 1 || got.State != "opened" || got.SHA != must(t, work, "rev-parse", "HEAD") {
		t.Errorf("%d %s", code, body)
	}
	for _, tt := range []struct {
		token, body string
		code        int
		says        string
	}{
		{"w", open, 409, `{"message":["Another open merge request already exists for this source branch: !1"]}`},
		{"w", strings.Replace(open, "hortus/x", "hortus/y", 1), 400, "does not exist"},
		{"w", strings.Replace(open, "hortus/x", "main", 1), 422, "same project/branch"},
		{"w", `{"title":"T"}`, 400, "missing"},
		{"r", open, 403, "403 Forbidden"},
		{"", open, 401, "401 Unauthorized"},
		{"wrong", open, 401, "401 Unauthorized"},
	} {
		if code, body := call(t, "POST", api, tt.token, tt.body); code != tt.code || !strings.Contains(body, tt.says) {
			t.Errorf("%s %s: %d %s", tt.token, tt.body, code, body)
		}
	}
	if code, _ := call(t, "GET", ts.URL+"/f/api/v4/projects/a%2Fb", "w", ""); code != 404 {
		t.Errorf("a project that is not there: %d", code)
	}
	if n := len(s.Pulls()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{Kind: "cvs"}); err == nil {
		t.Error("an unknown kind is taken")
	}
	if _, err := New(Config{Kind: GitHub, Repositories: []*Repository{{Path: "a/b"}}}); err == nil {
		t.Error("a repository without branches is taken")
	}
}
