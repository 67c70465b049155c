package githttp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// parse makes a request as a server parses it.
func parse(t *testing.T, text string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}

// TestRequests sends everything else than the four requests, and variants of them.
func TestRequests(t *testing.T) {
	upload, receive := "Content-Type: application/x-git-upload-pack-request\n", "Content-Type: application/x-git-receive-pack-request\n"
	body := "Content-Length: 4\n\n0000"
	for _, c := range []struct{ name, text, refused string }{
		{"refs for a fetch", "GET /o/r/info/refs?service=git-upload-pack\n", ""},
		{"refs for a push", "GET /o/r.git/info/refs?service=git-receive-pack\n", ""},
		{"fetch", "POST /o/r.git/git-upload-pack\n" + upload + body, ""},
		{"push", "POST /o/r/git-receive-pack\n" + receive + body, ""},
		{"encoded letter", "GET /%6f/r/info/refs?service=git-upload-pack\n", ""},
		{"version 1", "GET /o/r/info/refs?service=git-upload-pack\nGit-Protocol: version=1\n", ""},
		{"version 2", "GET /o/r/info/refs?service=git-upload-pack\nGit-Protocol: version=2\n", ""},
		{"whole URL", "GET http://example.org/o/r/info/refs?service=git-upload-pack\n", ""},

		{"dumb refs", "GET /o/r/info/refs\n", "the refs are listed with"},
		{"empty query", "GET /o/r/info/refs?\n", "the refs are listed with"},
		{"archive", "GET /o/r/info/refs?service=git-upload-archive\n", "the refs are listed with"},
		{"two services", "GET /o/r/info/refs?service=git-upload-pack&service=git-receive-pack\n", "the refs are listed with"},
		{"more parameters", "GET /o/r/info/refs?service=git-upload-pack&x=1\n", "the refs are listed with"},
		{"encoded service", "GET /o/r/info/refs?service=git%2dupload-pack\n", "the refs are listed with"},
		{"service in upper case", "GET /o/r/info/refs?service=GIT-upload-pack\n", "the refs are listed with"},
		{"HEAD", "HEAD /o/r/info/refs?service=git-upload-pack\n", "listed with GET"},
		{"POST for refs", "POST /o/r/info/refs?service=git-upload-pack\n" + body, "listed with GET"},
		{"GET for a push", "GET /o/r/git-receive-pack\n", "called with POST"},
		{"PUT", "PUT /o/r/git-receive-pack\n" + receive + body, "called with POST"},
		{"method in lower case", "post /o/r/git-receive-pack\n" + receive + body, "called with POST"},
		{"query of a push", "POST /o/r/git-receive-pack?x\n" + receive + body, "has no parameters"},
		{"empty query of a push", "POST /o/r/git-receive-pack?\n" + receive + body, "has no parameters"},
		{"body of a list", "GET /o/r/info/refs?service=git-upload-pack\n" + body, "has no body"},
		{"HEAD file", "GET /o/r/HEAD\n", "no request of git's"},
		{"object", "GET /o/r/objects/info/packs\n", "no request of git's"},
		{"LFS", "POST /o/r.git/info/lfs/objects/batch\n" + body, "no request of git's"},
		{"upload-archive", "POST /o/r/git-upload-archive\n" + body, "no request of git's"},
		{"API", "GET /api/v1/repos/o/r\n", "not a path of the repository"},
		{"other repository", "GET /o/other/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"longer name", "GET /o/r2/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"suffix twice", "GET /o/r.git.git/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"below", "GET /o/r/x/info/refs?service=git-upload-pack\n", "no request of git's"},
		{"wiki", "GET /o/r.wiki.git/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"path in upper case", "GET /O/r/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"suffix in upper case", "GET /o/r.GIT/info/refs?service=git-upload-pack\n", "not a path of the repository"},
		{"service path in upper case", "POST /o/r/git-Receive-pack\n" + receive + body, "no request of git's"},
		{"slash at the end", "POST /o/r/git-receive-pack/\n" + receive + body, "no request of git's"},
		{"dots", "GET /o/x/../r/info/refs?service=git-upload-pack\n", "in different ways"},
		{"dots to another", "POST /o/r/../other/git-receive-pack\n" + receive + body, "in different ways"},
		{"encoded dots", "GET /o/r/%2e%2e/other/info/refs?service=git-upload-pack\n", "in different ways"},
		{"encoded slash", "GET /o%2fr/info/refs?service=git-upload-pack\n", "in different ways"},
		{"encoded percent", "GET /o/r%252f/info/refs?service=git-upload-pack\n", "in different ways"},
		{"two slashes", "GET /o//r/info/refs?service=git-upload-pack\n", "in different ways"},
		{"parameters of a segment", "GET /o/r;x/info/refs?service=git-upload-pack\n", "in different ways"},
		{"backslash", "GET /o\\r/info/refs?service=git-upload-pack\n", "in different ways"},
		{"encoded NUL", "GET /o/r%00/info/refs?service=git-upload-pack\n", "in different ways"},

		{"no type", "POST /o/r/git-upload-pack\n" + body, "Content-Type"},
		{"type of the other", "POST /o/r/git-receive-pack\n" + upload + body, "Content-Type"},
		{"type with a parameter", "POST /o/r/git-upload-pack\nContent-Type: application/x-git-upload-pack-request; charset=x\n" + body, "Content-Type"},
		{"two types", "POST /o/r/git-upload-pack\n" + upload + upload + body, "Content-Type"},
		{"encoding", "POST /o/r/git-upload-pack\nContent-Encoding: deflate\n" + upload + body, "Content-Encoding"},
		{"two encodings", "POST /o/r/git-upload-pack\nContent-Encoding: gzip, gzip\n" + upload + body, "Content-Encoding"},
		{"no gzip", "POST /o/r/git-upload-pack\nContent-Encoding: gzip\n" + upload + body, "not valid gzip"},
		{"version 3", "GET /o/r/info/refs?service=git-upload-pack\nGit-Protocol: version=3\n", "Git-Protocol"},
		{"other key", "GET /o/r/info/refs?service=git-upload-pack\nGit-Protocol: version=2:x=1\n", "Git-Protocol"},
		{"two versions", "GET /o/r/info/refs?service=git-upload-pack\nGit-Protocol: version=2\nGit-Protocol: version=1\n", "Git-Protocol"},
		{"method override", "POST /o/r/git-upload-pack\nX-HTTP-Method-Override: PUT\n" + upload + body, "changes the request"},
		{"path override", "GET /o/r/info/refs?service=git-upload-pack\nX-Original-URL: /o/other\n", "changes the request"},
		{"upgrade", "GET /o/r/info/refs?service=git-upload-pack\nUpgrade: websocket\n", "has no use"},
		{"range", "POST /o/r/git-receive-pack\nContent-Range: bytes 0-3/4\n" + receive + body, "has no use"},
		{"trailers", "POST /o/r/git-upload-pack\nTransfer-Encoding: chunked\nTrailer: X-A\n" + upload + "\n4\n0000\n0\nX-A: b\n\n", "trailers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head, rest, _ := strings.Cut(c.text, "\n")
			text := head + " HTTP/1.1\nHost: example.org\n" + rest
			if !strings.Contains(rest, "\n\n") {
				text += "\n"
			}
			out, err := Check(sandboxRule(), parse(t, strings.ReplaceAll(text, "\n", "\r\n")))
			var refused *Refusal
			switch {
			case c.refused == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.refused == "":
				if b, err := io.ReadAll(out.Body); err != nil || strings.HasPrefix(head, "POST") != (string(b) == flush) {
					t.Errorf("the body is %q, %v", b, err)
				}
				if path := out.URL.EscapedPath(); !strings.HasPrefix(path, "/o/r/") && !strings.HasPrefix(path, "/o/r.git/") {
					t.Errorf("the path is %q", path)
				}
			case !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.refused):
				t.Errorf("refused: %v, want %q", err, c.refused)
			case refused.Hint != "Allowed in the repository /o/r: fetch, push to refs/heads/hortus/* (create and fast-forward).":
				t.Errorf("the hint is %q", refused.Hint)
			}
		})
	}
}

// TestRepository compares the names of repositories.
func TestRepository(t *testing.T) {
	for _, c := range []struct {
		rule, path string
		ok         bool
	}{
		{"/o/r", "/o/r", true}, {"/o/r", "/o/r.git", true}, {"/o/r.git", "/o/r", true}, {"/o/r/", "/o/r.git", true},
		{"/deep/o/r", "/deep/o/r", true}, {"/o/r", "/deep/o/r", false}, {"/deep/o/r", "/o/r", false},
		{"/", "", false}, {"/.git", "", false}, {"/", "/o/r", false}, {"/o/my repo", "/o/my%20repo", true},
	} {
		r := parse(t, "GET "+c.path+"/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: example.org\r\n\r\n")
		if _, err := Check(secrets.Git{Repository: c.rule, Fetch: true}, r); (err == nil) != c.ok {
			t.Errorf("rule %q, path %q: %v", c.rule, c.path, err)
		}
	}
}

// TestFetchBody sends the bodies of fetches.
func TestFetchBody(t *testing.T) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 64)
	body := func(parts ...string) string {
		var b []byte
		for _, p := range parts {
			if p == flush || p == "0001" {
				b = append(b, p...)
				continue
			}
			b = appendLine(b, p)
		}
		return string(b)
	}
	for _, c := range []struct {
		name, body string
		v2         bool
		ok         bool
	}{
		{"question", flush, false, true},
		{"clone", body("want "+one+" multi_ack_detailed no-done side-band-64k thin-pack include-tag ofs-delta agent=git/2.39.5\n", "want "+two+"\n", flush, "done\n"), false, true},
		{"negotiation", body("want "+one+" multi_ack", flush, "have "+one, "have "+one, flush, "have "+one, "done"), false, true},
		{"shallow", body("want "+one, "shallow "+one, "deepen 3", "deepen-since 1700000000", "deepen-not refs/heads/x", "filter blob:none", flush), false, true},
		{"version 0 to a server of version 2", body("want "+one, flush, "done"), true, true},
		{"ls-refs", body("command=ls-refs\n", "agent=x", "object-format=sha1", "session-id=x", "0001", "peel\n", "symrefs", "unborn", "ref-prefix refs/heads/", flush), true, true},
		{"ls-refs without arguments", body("command=ls-refs", flush), true, true},
		{"fetch", body("command=fetch", "0001", "thin-pack", "no-progress", "include-tag", "ofs-delta", "want "+one, "have "+two, "shallow "+one, "deepen 1",
			"deepen-relative", "filter combine:blob:none+tree:0", "want-ref refs/heads/x", "sideband-all", "wait-for-done", "done", flush), true, true},

		{"empty", "", false, false},
		{"bytes behind the question", flush + "x", false, false},
		{"version 2 without asking", body("command=ls-refs", flush), false, false},
		{"object-info", body("command=object-info", "0001", "size", flush), true, false},
		{"bundle-uri", body("command=bundle-uri", flush), true, false},
		{"two commands", body("command=ls-refs", flush, "command=fetch", flush), true, false},
		{"server option", body("command=ls-refs", "server-option=x", "0001", flush), true, false},
		{"unknown argument of ls-refs", body("command=ls-refs", "0001", "want "+one, flush), true, false},
		{"unknown argument of fetch", body("command=fetch", "0001", "packfile-uris https", flush), true, false},
		{"no end", body("command=fetch", "0001", "done"), true, false},
		{"no end of wants", body("want " + one), false, false},
		{"unknown capability", body("want "+one+" future", flush), false, false},
		{"have first", body("have "+one, flush), false, false},
		{"want among haves", body("want "+one, flush, "want "+one), false, false},
		{"bad id", body("want "+one[1:], flush), false, false},
		{"upper case", body("want "+strings.Repeat("A", 40), flush), false, false},
		{"bad number", body("want "+one, "deepen -1", flush), false, false},
		{"bad ref", body("want "+one, "deepen-not a b", flush), false, false},
		{"delimiter", body("want "+one, "0001", flush), false, false},
		{"long line", body("command=ls-refs", "0001", "ref-prefix "+strings.Repeat("x", 600), flush), true, false},
		{"cut", body("want " + one)[:20], false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			_, _ = io.WriteString(z, c.body)
			_ = z.Close()
			for _, encoding := range []string{"", "gzip"} {
				in, l := c.body, bounds()
				if encoding != "" {
					in = zipped.String()
				} else {
					l = streaming()
				}
				got, err := sent(t, sandboxRule(), uploadPack, strings.NewReader(in), l, func(r *http.Request) {
					if c.v2 {
						r.Header.Set("Git-Protocol", "version=2")
					}
					if encoding != "" {
						r.Header.Set("Content-Encoding", encoding)
					}
				})
				var refused *Refusal
				if c.ok && (err != nil || string(got) != c.body) || !c.ok && !errors.As(err, &refused) {
					t.Errorf("encoding %q: sent %q, %v", encoding, got, err)
				}
			}
		})
	}
}

// TestGzip sends bodies that grow too much, or have something behind them.
func TestGzip(t *testing.T) {
	pack := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	want := string(appendLine(nil, "want "+strings.Repeat("1", 40)))
	ok := pack(want + flush)
	for name, c := range map[string]struct {
		in      string
		refused string
	}{
		"whole":   {ok, ""},
		"behind":  {ok + "x", "not valid gzip"},
		"two":     {ok + pack("0009done\n"), "not valid gzip"},
		"cut":     {ok[:len(ok)-3], "not valid gzip"},
		"damaged": {ok[:len(ok)-5] + "xxxxx", "not valid gzip"},
		"bomb":    {pack(strings.Repeat(want, 200_000) + flush), "grows too much"},
	} {
		_, err := sent(t, sandboxRule(), uploadPack, strings.NewReader(c.in), bounds(), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The limit on a fetch holds for what is decoded.
	l := bounds()
	for l.upload = 50; l.upload <= 100; l.upload += 50 {
		if _, err := sent(t, sandboxRule(), uploadPack, strings.NewReader(want+flush+"0009done\n"), l); (err == nil) != (l.upload == 100) {
			t.Errorf("limit %d: %v", l.upload, err)
		}
	}
}

// TestClientLeaves returns the error of the connection, not a refusal.
func TestClientLeaves(t *testing.T) {
	left := errors.New("the client left")
	head := listOf("", zeros+" "+tree+" refs/heads/hortus/x")
	for _, n := range []int{2, len(head), len(head) + 14} {
		whole := append(bytes.Clone(head), packOf(crafted{kind: packBlob, content: []byte("x")})...)
		_, err := sent(t, sandboxRule(), receivePack, io.MultiReader(bytes.NewReader(whole[:n]), broken{left}), streaming())
		if !errors.Is(err, left) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		for _, gz := range []string{"", "gzip"} {
			_, err = sent(t, sandboxRule(), uploadPack, broken{left}, streaming(), func(r *http.Request) {
				if gz != "" {
					r.Header.Set("Content-Encoding", gz)
				}
			})
			if !errors.Is(err, left) {
				t.Errorf("fetch %q: %v", gz, err)
			}
		}
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
