package cache

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
)

func TestRemoteByHTTP(t *testing.T) {
	s := newServer(t, false)
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n"})
	url, dir := s.bare(t, src, "a.git")
	var logged bytes.Buffer
	c := newCache(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})

	_, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
	gittest.WantKind(t, err, api.KindUnauthenticated, "token")
	_, err = c.Fetch(gittest.Context(t), git.Source{URL: url, Auth: &git.Auth{Username: "alice", Token: "wrong+one"}}, nil)
	gittest.WantKind(t, err, api.KindUnauthenticated, "token")
	noSecret(t, "an error", err.Error(), "wrong+one")

	source := git.Source{URL: url, Auth: auth()}
	var lines strings.Builder
	r, err := c.Fetch(gittest.Context(t), source, func(l string) { lines.WriteString(l + "\n") })
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Fetch(gittest.Context(t), git.Source{URL: s.URL + "/none.git", Auth: auth()}, nil)
	gittest.WantKind(t, err, api.KindNotFound, "")
	base := head(t, r)
	res, err := r.Commit(gittest.Context(t), request(base.Hash, file("a.txt", "two\n")))
	if err != nil {
		t.Fatal(err)
	}
	push := PushRequest{Source: source, Commit: res.Hash, Branch: "hortus/x"}
	if got, err := r.Push(gittest.Context(t), push); err != nil || !got.Created || got.UpToDate {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got := gittest.Git(t, dir, "rev-parse", "refs/heads/hortus/x"); got != res.Hash {
		t.Errorf("the branch is at %s", got)
	}
	if got, err := r.Push(gittest.Context(t), push); err != nil || !got.UpToDate {
		t.Errorf("once more: %+v, %v", got, err)
	}

	// A better attempt, not on top of the first, with the lease.
	other, err := r.Commit(gittest.Context(t), request(base.Hash, file("a.txt", "three\n")))
	if err != nil {
		t.Fatal(err)
	}
	push.Commit = other.Hash
	_, err = r.Push(gittest.Context(t), push)
	gittest.WantKind(t, err, api.KindConflict, "another client")
	push.Expect = base.Hash
	_, err = r.Push(gittest.Context(t), push)
	gittest.WantKind(t, err, api.KindConflict, "another client")
	push.Expect = res.Hash
	if got, err := r.Push(gittest.Context(t), push); err != nil || got.Created || got.UpToDate {
		t.Errorf("with the lease: %+v, %v", got, err)
	}
	// Behind what is expected is fine too.
	gittest.Git(t, dir, "update-ref", "refs/heads/hortus/x", base.Hash)
	push.Expect = res.Hash
	if _, err := r.Push(gittest.Context(t), push); err != nil {
		t.Errorf("an ancestor: %v", err)
	}
	// Somebody else's commit stays.
	gittest.WriteFiles(t, src, map[string]string{"theirs": "x"})
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-qm", "theirs")
	gittest.Git(t, src, "push", "-q", "-f", dir, "HEAD:refs/heads/hortus/x")
	_, err = r.Push(gittest.Context(t), PushRequest{Source: source, Commit: res.Hash, Branch: "hortus/x", Expect: other.Hash})
	gittest.WantKind(t, err, api.KindConflict, "another client")
	if got := gittest.Git(t, dir, "rev-parse", "refs/heads/hortus/x"); got != gittest.Git(t, src, "rev-parse", "HEAD") {
		t.Errorf("somebody else's branch is at %s", got)
	}
	for _, branch := range []string{"refs/tags/x", "../x", "-f", "a b"} {
		_, err = r.Push(gittest.Context(t), PushRequest{Source: source, Commit: res.Hash, Branch: branch})
		gittest.WantKind(t, err, api.KindInvalid, "")
	}
	_, err = r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: url}, Commit: res.Hash, Branch: "y"})
	gittest.WantKind(t, err, api.KindUnauthenticated, "")

	// A remote that refuses says why, without its tricks.
	hook := filepath.Join(dir, "hooks", "pre-receive")
	gittest.WriteFiles(t, dir, map[string]string{"hooks/pre-receive": "#!/bin/sh\nprintf 'policy: \\033[31mno %s\\n' \"" + token + "\" >&2\nexit 1\n"})
	os.Chmod(hook, 0o755)
	_, err = r.Push(gittest.Context(t), PushRequest{Source: source, Commit: res.Hash, Branch: "hortus/y"})
	gittest.WantKind(t, err, api.KindDenied, "policy: [31mno [redacted]")

	noSecret(t, "the log", logged.String(), token)
	noSecret(t, "the progress", lines.String(), token)
	noSecretInFiles(t, c.cfg.Dir)
	if !strings.Contains(logged.String(), "fetch") {
		t.Error("the log is empty")
	}
	if text := fmt.Sprintf("%v %+v %#v", source.Auth, source, push.Source); strings.Contains(text, token) {
		t.Errorf("printing tells the token: %s", text)
	}
}

func noSecret(t *testing.T, what, text, secret string) {
	t.Helper()
	for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte("alice:" + secret))} {
		if strings.Contains(text, s) {
			t.Errorf("%s tells the token: %s", what, text)
		}
	}
}

func noSecretInFiles(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(p)
			noSecret(t, p, string(b), token)
		}
		return err
	})
}

// TestRemoteMovesMeanwhile lets somebody push between our look and our push.
func TestRemoteMovesMeanwhile(t *testing.T) {
	s := newServer(t, true)
	src := gittest.NewCheckout(t, nil)
	url, dir := s.bare(t, src, "a.git")
	r := fetch(t, newCache(t), url)
	res, err := r.Commit(gittest.Context(t), request(head(t, r).Hash, file("x", "x")))
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	s.before(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "git-receive-pack") && done.CompareAndSwap(false, true) {
			gittest.Git(t, dir, "update-ref", "refs/heads/b", gittest.Git(t, dir, "rev-parse", "main"))
		}
		return false
	})
	_, err = r.Push(gittest.Context(t), PushRequest{Source: git.Source{URL: url}, Commit: res.Hash, Branch: "b"})
	gittest.WantKind(t, err, api.KindConflict, "during the push")
	if got := gittest.Git(t, dir, "rev-parse", "b"); got == res.Hash {
		t.Error("it was overwritten")
	}
}

// TestRemoteRedirects: a server that sends us elsewhere gets no further, and no
// token goes there.
func TestRemoteRedirects(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	target := newServer(t, true)
	_, _ = target.bare(t, src, "a.git")
	got := make(chan string, 100)
	target.before(func(_ http.ResponseWriter, r *http.Request) bool {
		got <- r.Header.Get("Authorization")
		return false
	})
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer away.Close()
	c := newCache(t)
	_, err := c.Fetch(gittest.Context(t), git.Source{URL: away.URL + "/a.git", Auth: auth()}, nil)
	gittest.WantKind(t, err, api.KindInvalid, "redirects")
	if len(got) > 0 {
		t.Errorf("the other server was asked, with %q", <-got)
	}
	// Control: without the guard git follows, and the token with it.
	if out, err := gittest.TryGit(t, t.TempDir(), "-c", "http.followRedirects=initial", "-c", "http."+away.URL+".extraHeader=Authorization: Basic "+auth().Basic(), "clone", "-q", away.URL+"/a.git", "x"); err != nil || len(got) == 0 {
		t.Errorf("control: %v %s", err, out)
	}
	close(got)
	leaked := 0
	for header := range got {
		if strings.Contains(header, auth().Basic()) {
			leaked++
		}
	}
	if leaked == 0 {
		t.Error("control: the token did not leak; redirects may have become safe")
	}
}

func TestRemoteByTLS(t *testing.T) {
	back := newServer(t, true)
	src := gittest.NewCheckout(t, nil)
	back.bare(t, src, "a.git")
	to, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	defer s.Close()
	_, err = newCache(t).Fetch(gittest.Context(t), git.Source{URL: s.URL + "/a.git"}, nil)
	gittest.WantKind(t, err, api.KindDenied, "certificate")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	head(t, fetch(t, newCache(t, func(c *Config) { c.CAFile = ca }), s.URL+"/a.git"))
}

func TestRemoteThroughProxy(t *testing.T) {
	back := newServer(t, true)
	src := gittest.NewCheckout(t, nil)
	back.bare(t, src, "a.git")
	var asked atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		asked.Add(1)
		r.Out.URL.Host = strings.TrimPrefix(back.URL, "http://")
		r.Out.URL.Scheme = "http"
	}})
	defer proxy.Close()
	c := newCache(t, func(c *Config) { c.Proxy, c.Insecure = proxy.URL, true })
	head(t, fetch(t, c, "http://git.example.test/a.git"))
	if asked.Load() == 0 {
		t.Error("the proxy was not asked")
	}
}

// TestRemoteHangs: a server that says nothing holds nobody, and a context that ends
// leaves no process behind.
func TestRemoteHangs(t *testing.T) {
	asked := make(chan struct{}, 10)
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer s.Close()
	defer close(over)
	c := newCache(t)
	ctx, stop := context.WithCancel(gittest.Context(t))
	defer stop()
	result := make(chan error, 1)
	go func() {
		_, err := c.Fetch(ctx, git.Source{URL: s.URL + "/a.git"}, nil)
		result <- err
	}()
	select {
	case <-asked:
	case err := <-result:
		t.Fatal(err)
	}
	mine := processesWith(t, c.cfg.Dir)
	if len(mine) < 2 { // git and git-remote-http
		t.Errorf("control: only %v run", mine)
	}
	stop()
	gittest.WantKind(t, <-result, api.KindCanceled, "")
	deadline := time.Now().Add(patience.Of(time.Minute))
	for len(processesWith(t, c.cfg.Dir)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%v still run", processesWith(t, c.cfg.Dir))
		}
	}
	// The lock is free.
	src := gittest.NewCheckout(t, nil)
	fetch(t, c, src)
	lock, err := c.repo(must(git.ParseRemote(s.URL+"/a.git", false))).lock(gittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

func must(r git.Remote, err error) git.Remote {
	if err != nil {
		panic(err)
	}
	return r
}

// processesWith lists the processes whose environment names dir.
func processesWith(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(all) == 0 {
		t.Skip("there is no /proc to look for processes in")
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("HOME="+dir+"/home\x00")) {
			found = append(found, p)
		}
	}
	return found
}

// TestRemoteOfPlainFiles: over the old protocol objects would come in unchecked.
func TestRemoteOfPlainFiles(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "a.git")
	gittest.Git(t, src, "clone", "-q", "--bare", src, dir)
	gittest.Git(t, dir, "update-server-info")
	s := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(dir))))
	defer s.Close()
	_, err := newCache(t).Fetch(gittest.Context(t), git.Source{URL: s.URL + "/a.git"}, nil)
	gittest.WantKind(t, err, api.KindUnsupported, "old file protocol")
	gittest.Git(t, t.TempDir(), "clone", "-q", s.URL+"/a.git", filepath.Join(t.TempDir(), "control"))
}
