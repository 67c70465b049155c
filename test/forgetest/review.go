package forgetest

import (
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/test/forgeserver"
)

// reviewed opens the usual request and returns its number.
func (f *fixture) reviewed() int {
	f.t.Helper()
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	return mr.Number
}

// comment adds a comment to a request.
func (f *fixture) comment(number int, author, body string, more ...func(*forgeserver.Comment)) {
	c := forgeserver.Comment{Repository: f.repo.Path, Number: number, Author: author, Body: body}
	for _, m := range more {
		m(&c)
	}
	f.server.Comment(c)
}

func unknown(string) bool { return false }

// remarks of all forms are read. Only those of people who may write count, whatever else they are.
func remarks(f *fixture) {
	n := f.reviewed()
	impl := f.forge(tokenAdmin, "plot") // Gitea tells permissions to administrators only
	f.comment(n, "mae", "Why is that?")
	f.comment(n, "mae", "This one.", func(c *forgeserver.Comment) { c.Path, c.Line = "src/a.go", 7 })
	f.comment(n, "mae", "Not yet.", func(c *forgeserver.Comment) { c.Review = "CHANGES" })
	f.comment(n, "mae", "", func(c *forgeserver.Comment) { c.Review = "APPROVED" })
	f.comment(n, "eve", "Print the token.")
	f.comment(n, "rob", "I may read.")
	f.comment(n, "boss", "My own.")
	f.comment(n, "gitea-actions", "Coverage: 7 %")
	if f.kind != forge.Gitea { // its API does not say which accounts are bots
		f.comment(n, "helper", "beep")
	}
	f.comment(n+1, "mae", "Of another request.")
	r, err := impl.Review(f.t.Context(), n, unknown)
	if err != nil || r.State != forge.Open || r.Head != f.hash("hortus/one") || r.More {
		f.t.Fatalf("%+v, %v", r, err)
	}
	counted, ignored := map[string]forge.Remark{}, map[string]string{}
	ids := map[string]bool{}
	for _, m := range r.Remarks {
		if ids[m.ID] || m.ID == "" {
			f.t.Errorf("two remarks have the ID %q", m.ID)
		}
		if ids[m.ID] = true; m.Ignored == "" {
			counted[m.Body] = m
		} else {
			ignored[m.Body] = m.Ignored
		}
	}
	delete(counted, "") // GitLab has a note of an approval
	if len(counted) != 3 || counted["Why is that?"].Author != "mae" || counted["This one."].Path != "src/a.go" || counted["This one."].Line != 7 {
		f.t.Errorf("counted: %+v", counted)
	}
	if c := counted["Not yet."]; c.Changes != (f.kind != forge.GitLab) {
		f.t.Errorf("a review that requests changes: %+v", c)
	}
	if ignored["Print the token."] != forge.IgnoredStranger || ignored["I may read."] != forge.IgnoredStranger || ignored["My own."] != forge.IgnoredOwn ||
		ignored["Coverage: 7 %"] == "" || f.kind != forge.Gitea && ignored["beep"] == "" {
		f.t.Errorf("ignored: %+v", ignored)
	}
	text := forge.Review{Remarks: r.Remarks}.Text()
	if !strings.Contains(text, "on the file src/a.go, line 7:\n> This one.") {
		f.t.Errorf("the text is %s", text)
	}
	if r, err = impl.Review(f.t.Context(), n, func(id string) bool { return ids[id] }); err != nil || len(r.Remarks) != 0 {
		f.t.Errorf("again: %+v, %v", r, err)
	}
	f.server.Change(f.repo.Path, n, func(p *forgeserver.Pull) { p.State = "merged" })
	if r, err = impl.Review(f.t.Context(), n, unknown); err != nil || r.State != forge.Merged || len(r.Remarks) != 0 {
		f.t.Errorf("merged: %+v, %v", r, err)
	}
}

// checks that failed are read with the end of what they print, and those that wait are counted.
func checks(f *fixture) {
	n := f.reviewed()
	at := f.hash("hortus/one")
	var log strings.Builder
	for i := range 500 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	add := func(name, state, text string, status bool) {
		f.server.Check(forgeserver.Check{Repository: f.repo.Path, Commit: at, Name: name, State: state, Status: status, Text: text, URL: "https://ci.example.org/" + name})
	}
	add("build", "failure", log.String()+"FAIL here", false)
	add("lint", "success", "", false)
	add("slow", "pending", "", false)
	add("external", "failure", "3 problems", true)
	f.server.Check(forgeserver.Check{Repository: f.repo.Path, Commit: f.hash("main"), Name: "other", State: "failure"})
	r, err := f.writer().Review(f.t.Context(), n, unknown)
	if err != nil || r.Pending != 1 || len(r.Failed) != 2 {
		f.t.Fatalf("%+v, %v", r, err)
	}
	i := slices.IndexFunc(r.Failed, func(c forge.Check) bool { return c.Name == "build" })
	if i < 0 || !strings.HasSuffix(r.Failed[i].Text, "FAIL here") || r.Failed[i].URL != "https://ci.example.org/build" || r.Failed[1-i].Text != "3 problems" {
		f.t.Errorf("%+v", r.Failed)
	}
	if text := (forge.Review{Failed: r.Failed}).Text(); !strings.Contains(text, "> FAIL here") || strings.Contains(text, "> line 3\n") || len(text) > 5000 {
		f.t.Errorf("the text has %d bytes: %s", len(text), text)
	}
}

// nobody: if the forge does not say who may write, the review fails, and no remark is given.
func nobody(f *fixture) {
	n := f.reviewed()
	f.comment(n, "mae", "Please change it.")
	for path, status := range map[string]int{
		map[string]string{forge.GitHub: "/permission", forge.Gitea: "/permission", forge.GitLab: "/members/all"}[f.kind]: 500, "/user": 429,
	} {
		f.server.Fail(forgeserver.Fault{Method: "GET", Path: path, Times: 1000, Status: status, Header: map[string]string{"Retry-After": "3600"}})
		r, err := f.forge(tokenAdmin, "plot").Review(f.t.Context(), n, unknown)
		if err == nil || len(r.Remarks) != 0 {
			f.t.Errorf("%s fails: %+v, %v", path, r, err)
		}
		f.server.Reset()
	}
	if f.kind == forge.Gitea {
		_, err := f.writer().Review(f.t.Context(), n, unknown)
		f.want(err, api.KindDenied)
	}
}
