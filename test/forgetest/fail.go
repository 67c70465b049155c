package forgetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/test/forgeserver"
)

func branches(f *fixture) {
	req := f.request()
	req.Source, req.Commit = "hortus/none", ""
	_, err := f.writer().Open(f.t.Context(), req)
	f.want(err, api.KindNotFound)
	req = f.request()
	req.Commit = f.hash("main")
	_, err = f.writer().Open(f.t.Context(), req)
	f.want(err, api.KindConflict)
	if f.writes() != 0 {
		f.t.Error("something was written")
	}
	req = f.request()
	req.Target = "nowhere"
	_, err = f.writer().Open(f.t.Context(), req)
	if k := api.KindOf(err); k != api.KindNotFound && k != api.KindConflict && k != api.KindInvalid {
		f.t.Errorf("a target that is not there: %v", err)
	}
	if f.kind == forge.GitHub {
		req.Source, req.Target, req.Commit = "hortus/empty", "main", ""
		_, err = f.writer().Open(f.t.Context(), req)
		f.want(err, api.KindConflict)
		if !strings.Contains(err.Error(), "No commits between main and hortus/empty") {
			f.t.Errorf("the forge's reason is lost: %v", err)
		}
		// A repository that got another name is where its redirect leads.
		mr, err := f.forge(tokenWriter, "was").Open(f.t.Context(), f.request())
		if err != nil || !mr.Created {
			f.t.Errorf("moved: %+v, %v", mr, err)
		}
	}
	if n := len(f.server.Pulls()); n > 1 {
		f.t.Errorf("%d requests", n)
	}
}

func wrong(f *fixture) {
	for name, change := range map[string]func(*forge.Request){
		"no source":    func(r *forge.Request) { r.Source = "" },
		"an option":    func(r *forge.Request) { r.Source = "--upload-pack=x" },
		"a climb":      func(r *forge.Request) { r.Source = "hortus/../main" },
		"a query":      func(r *forge.Request) { r.Source = "x?y=z" },
		"to itself":    func(r *forge.Request) { r.Target = r.Source },
		"no title":     func(r *forge.Request) { r.Title = " " },
		"two lines":    func(r *forge.Request) { r.Title = "a\nb" },
		"a long title": func(r *forge.Request) { r.Title = strings.Repeat("x", forge.MaxTitle+1) },
		"a long body":  func(r *forge.Request) { r.Body = strings.Repeat("x", forge.MaxBody+1) },
		"two labels":   func(r *forge.Request) { r.Labels = []string{"a,b"} },
		"a short hash": func(r *forge.Request) { r.Commit = "abc123" },
	} {
		req := f.request()
		change(&req)
		_, err := f.writer().Open(f.t.Context(), req)
		if api.KindOf(err) != api.KindInvalid {
			f.t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(f.server.Calls()); n != 0 {
		f.t.Errorf("%d calls were made", n)
	}
	l := forge.Location{Kind: f.kind, Host: "h.example", Owner: "o", Name: "n", API: "https://h.example/api/v1/"}
	for name, change := range map[string]func(*rest.Config){
		"no token":       func(c *rest.Config) { c.Token = "" },
		"a token's line": func(c *rest.Config) { c.Token = "tok-a\nX: y" },
		"without TLS":    func(c *rest.Config) { c.Location.API = "http://h.example/api/v1/" },
		"a climb":        func(c *rest.Config) { c.Location.Name = ".." },
		"another kind":   func(c *rest.Config) { c.Location.Kind = "other" },
	} {
		cfg := rest.Config{Location: l, Token: tokenWriter}
		change(&cfg)
		_, err := f.open(cfg)
		if k := api.KindOf(err); k != api.KindInvalid && k != api.KindUnauthenticated {
			f.t.Errorf("%s: %v", name, err)
		}
		f.want(err, api.KindOf(err))
	}
}

func denied(f *fixture) {
	_, err := f.forge(tokenUnknown, "plot").Open(f.t.Context(), f.request())
	f.want(err, api.KindUnauthenticated)
	_, err = f.forge(tokenUnknown, "plot").Repository(f.t.Context())
	f.want(err, api.KindUnauthenticated)
	_, err = f.forge(tokenReader, "plot").Open(f.t.Context(), f.request())
	f.want(err, api.KindDenied)
	if api.HintOf(err) == "" {
		f.t.Error("no hint")
	}
	_, err = f.forge("tok-blind", "plot").Repository(f.t.Context())
	f.want(err, api.KindNotFound)
	_, err = f.forge("tok-blind", "plot").Open(f.t.Context(), f.request())
	f.want(err, api.KindNotFound)
	_, err = f.forge(tokenWriter, "old").Open(f.t.Context(), f.request())
	if k := api.KindOf(err); k != api.KindDenied && k != api.KindConflict {
		f.t.Errorf("archived: %v", err)
	}
	if n := len(f.server.Pulls()); n != 0 {
		f.t.Errorf("%d requests", n)
	}
}

func limits(f *fixture) {
	// A short one is waited for, also by a call that makes something.
	f.server.Fail(
		forgeserver.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: `{"message":"slow down"}`},
		forgeserver.Fault{Method: "POST", Status: 429, Header: map[string]string{"Retry-After": "8"}, Body: `{"message":"slow down"}`},
	)
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || !mr.Created || len(f.server.Pulls()) != 1 {
		f.t.Fatalf("%+v, %v", mr, err)
	}
	if len(f.waits) != 2 || f.waits[0] < 6*time.Second || f.waits[0] > 7*time.Second || f.waits[1] < 7*time.Second || f.waits[1] > 8*time.Second {
		f.t.Errorf("waited %v", f.waits)
	}
	// A long one is told, with its end.
	reset := time.Now().Add(40 * time.Minute).Truncate(time.Second)
	for name, fault := range map[string]forgeserver.Fault{
		"Retry-After": {Status: 429, Header: map[string]string{"Retry-After": "2400"}},
		"GitHub's":    {Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": itoa(reset.Unix())}, Body: `{"message":"API rate limit exceeded for user ID 1."}`},
		"GitLab's":    {Status: 429, Header: map[string]string{"RateLimit-Reset": itoa(reset.Unix())}, Body: "Retry later\n"},
	} {
		f.server.Fail(fault)
		_, err := f.writer().Repository(f.t.Context())
		f.want(err, api.KindExhausted)
		at, ok := forge.RetryAt(err)
		if !ok || at.Before(reset.Add(-5*time.Minute)) || at.After(reset.Add(5*time.Minute)) || !strings.Contains(api.HintOf(err), at.UTC().Format("2006-01-02T15:04")) {
			f.t.Errorf("%s: until %s, %v; %s", name, at, ok, api.HintOf(err))
		}
	}
	// One that stays is not asked for ever.
	before := len(f.server.Calls())
	f.server.Fail(forgeserver.Fault{Status: 429, Header: map[string]string{"Retry-After": "1"}, Times: 100})
	_, err = f.writer().Repository(f.t.Context())
	f.want(err, api.KindExhausted)
	if n := len(f.server.Calls()) - before; n != rest.DefaultTries {
		f.t.Errorf("%d calls", n)
	}
}

func passing(f *fixture) {
	f.server.Fail(
		forgeserver.Fault{Method: "GET", Status: 502, Body: "<html>bad gateway</html>"},
		forgeserver.Fault{Method: "POST", Status: 503, Body: `{"message":"unavailable"}`},
		forgeserver.Fault{Method: "GET", Path: "hortus", Cut: true},
	)
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || !mr.Created || len(f.server.Pulls()) != 1 {
		f.t.Errorf("%+v, %v, %d requests", mr, err, len(f.server.Pulls()))
	}
	if len(f.waits) == 0 {
		f.t.Error("it did not wait")
	}
}

func staying(f *fixture) {
	f.server.Fail(forgeserver.Fault{Status: 500, Body: `{"message":"no"}`, Times: 1000})
	_, err := f.writer().Open(f.t.Context(), f.request())
	f.want(err, api.KindUnavailable)
	if n := len(f.server.Calls()); n != rest.DefaultTries {
		f.t.Errorf("%d calls", n)
	}
	f = newFixture(f.t, f.kind, f.open)
	f.server.Fail(forgeserver.Fault{Method: "POST", Status: 500, Body: `{"message":"no"}`, Times: 1000})
	_, err = f.writer().Open(f.t.Context(), f.request())
	f.want(err, api.KindUnavailable)
	if n := f.writes(); n != rest.DefaultTries {
		f.t.Errorf("%d calls that write", n)
	}
	// Nobody listens.
	_, err = f.forge(tokenWriter, "plot", func(c *rest.Config) { c.Location.API = "http://127.0.0.1:1/api/v1/" }).Repository(f.t.Context())
	f.want(err, api.KindUnavailable)
}

// lostAnswers: the forge makes the request, and the answer does not come.
func lostAnswers(f *fixture) {
	for _, fault := range []forgeserver.Fault{{Cut: true}, {Lose: true}} {
		f := newFixture(f.t, f.kind, f.open)
		fault.Method = "POST"
		f.server.Fail(fault)
		mr, err := f.writer().Open(f.t.Context(), f.request())
		if err != nil || mr.Number != 1 || len(f.server.Pulls()) != 1 {
			f.t.Errorf("%+v: %+v, %v, %d requests", fault, mr, err, len(f.server.Pulls()))
		}
		if f.writes() != 1 {
			f.t.Errorf("%+v: %d calls that write", fault, f.writes())
		}
	}
	// The time of a try ends while the forge thinks; the next one makes it.
	f.server.Fail(forgeserver.Fault{Method: "POST", Hang: true})
	mr, err := f.forge(tokenWriter, "plot", func(c *rest.Config) { c.HTTP = &http.Client{Timeout: 2 * time.Second} }).Open(f.t.Context(), f.request())
	if err != nil || mr.Number != 1 || len(f.server.Pulls()) != 1 {
		f.t.Errorf("hung: %+v, %v", mr, err)
	}
}

func canceled(f *fixture) {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.server.Fail(forgeserver.Fault{Method: "POST", Hang: true, Times: 100})
	impl := f.forge(tokenWriter, "plot", func(c *rest.Config) {
		c.HTTP = &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				cancel() // while the call is on its way
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
	})
	_, err := impl.Open(ctx, f.request())
	if err != context.Canceled {
		f.t.Errorf("%v", err)
	}
	if _, err = impl.Repository(ctx); err != context.Canceled {
		f.t.Errorf("%v", err)
	}
}

func labelsFail(f *fixture) {
	path := "/labels"
	if f.kind == forge.GitLab {
		path = "/merge_requests/"
	}
	f.server.Fail(forgeserver.Fault{Path: path, Status: 403, Body: `{"message":"no labels for you"}`})
	req := f.request()
	req.Labels = []string{"x"}
	mr, err := f.writer().Open(f.t.Context(), req)
	f.want(err, api.KindDenied)
	if mr.Number != 1 || !mr.Created || mr.URL == "" {
		f.t.Errorf("what was made is not told: %+v", mr)
	}
}

// hostile: a server that lies, floods, and gives the token back.
func hostile(f *fixture) {
	for name, body := range map[string]string{
		"the token":   `{"message":"bad ` + tokenWriter + ` \u001b[31m\nred"}`,
		"deep":        `{"message":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`,
		"no JSON":     tokenWriter + "\x00\xff",
		"a long word": `{"message":"` + strings.Repeat("é", 50_000) + `"}`,
	} {
		f.server.Fail(forgeserver.Fault{Status: 400, Body: body})
		_, err := f.writer().Repository(f.t.Context())
		f.want(err, api.KindInvalid)
		if len(err.Error()) > 1000 {
			f.t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	for name, body := range map[string]string{
		"an option": `{"default_branch":"--upload-pack=x","html_url":"http://h/","web_url":"http://h/"}`,
		"no page":   `{"default_branch":"main","html_url":"javascript:alert(1)","web_url":"javascript:alert(1)"}`,
		"endless":   `{"default_branch":"main","html_url":"http://h/","web_url":"http://h/","x":"` + strings.Repeat("x", 70_000) + `"}`,
		"cut":       `{"default_branch":"ma`,
		"a list":    `[1,2,3]`,
		"nothing":   ``,
	} {
		f.server.Fail(forgeserver.Fault{Status: 200, Body: body})
		r, err := f.forge(tokenWriter, "plot", func(c *rest.Config) { c.Bytes = 60_000 }).Repository(f.t.Context())
		if err == nil || name == "endless" && !strings.Contains(err.Error(), "more than 60000 bytes") {
			f.t.Errorf("%s: %+v, %v", name, r, err)
		}
		f.want(err, api.KindOf(err))
		f.server.Reset()
	}
	f.server.Fail(forgeserver.Fault{Method: "POST", Status: 201, Body: `{"number":1,"iid":1,"html_url":"javascript:alert(1)","web_url":"javascript:alert(1)"}`, Times: 100})
	mr, err := f.writer().Open(f.t.Context(), f.request())
	f.want(err, api.KindUnavailable)
	if mr.URL != "" {
		f.t.Errorf("an address of another kind: %+v", mr)
	}
}

// redirectAway: a redirect to another host must not take the token there. The
// control is a client that sets the header in its transport.
func redirectAway(f *fixture) {
	var got []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+r.Header.Get("PRIVATE-TOKEN"))
	}))
	f.t.Cleanup(thief.Close)
	for _, code := range []int{301, 302, 307, 308} {
		fault := forgeserver.Fault{Status: code, Header: map[string]string{"Location": thief.URL + "/forge/x"}}
		f.server.Fail(fault)
		_, err := f.writer().Repository(f.t.Context())
		f.want(err, api.KindInvalid)
		fault.Method = "POST"
		f.server.Fail(fault)
		_, err = f.writer().Open(f.t.Context(), f.request())
		f.want(err, api.KindInvalid)
		// The same host, but not the API: another program may live there.
		f.server.Fail(forgeserver.Fault{Status: code, Header: map[string]string{"Location": f.url + "/elsewhere"}})
		_, err = f.writer().Repository(f.t.Context())
		f.want(err, api.KindInvalid)
	}
	// Within the API a call must stay what it is: 302 makes a GET of a POST.
	inside := strings.SplitAfter(f.server.Calls()[0].Path, "/api/v")[0]
	version := f.server.Calls()[0].Path[len(inside):][:1]
	f.server.Fail(forgeserver.Fault{Method: "POST", Status: 302, Header: map[string]string{"Location": f.url + inside + version + "/turned"}})
	_, err := f.writer().Open(f.t.Context(), f.request())
	f.want(err, api.KindInvalid)
	for _, c := range f.server.Calls() {
		if strings.HasPrefix(c.Path, "/elsewhere") || strings.HasSuffix(c.Path, "/turned") {
			f.t.Errorf("the token went to %s", c.Path)
		}
	}
	if len(got) != 0 {
		f.t.Fatalf("the other host was asked: %q", got)
	}
	f.server.Fail(forgeserver.Fault{Status: 302, Header: map[string]string{"Location": thief.URL}})
	plain := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+tokenWriter)
		return http.DefaultTransport.RoundTrip(r)
	})}
	resp, err := plain.Get(f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		f.t.Error(err)
	}
	if len(got) != 1 || !strings.Contains(got[0], tokenWriter) {
		f.t.Errorf("the control did not lose the token: %q", got)
	}
}

// tokenForm: the token is in every call's header, and in no URL.
func tokenForm(f *fixture) {
	if _, err := f.writer().Open(f.t.Context(), f.request()); err != nil {
		f.t.Fatal(err)
	}
	form := "Bearer "
	if f.kind == forge.Gitea {
		form = "token "
	}
	for _, c := range f.server.Calls() {
		if c.Header.Get("Authorization") != form+tokenWriter || c.Header.Get("PRIVATE-TOKEN") != "" || c.Header.Get("User-Agent") != "hortus" {
			f.t.Errorf("%s %s: %v", c.Method, c.Path, c.Header)
		}
		if strings.Contains(c.Path, "tok-") {
			f.t.Errorf("the token is in %s", c.Path)
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
