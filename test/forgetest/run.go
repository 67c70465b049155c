package forgetest

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/test/forgeserver"
)

// Run holds an implementation of a kind to the contract.
func Run(t *testing.T, kind string, open Open) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, c := range []struct {
		name string
		run  func(*fixture)
	}{
		{"repository", repository},
		{"is what a probe finds", probed},
		{"opens", opens},
		{"opens a draft with labels", opensDraft},
		{"again changes nothing", again},
		{"updates its own", updates},
		{"leaves a draft's state to people", readied},
		{"leaves a person's request alone", foreign},
		{"a fork's branch is another", forks},
		{"another target is a conflict", otherTarget},
		{"a closed one does not count", closed},
		{"finds its own among many", many},
		{"the branch must be there and be ours", branches},
		{"requests that are wrong", wrong},
		{"at the same time", together},
		{"somebody was faster", faster},
		{"who may not", denied},
		{"rate limits", limits},
		{"failures that pass", passing},
		{"failures that stay", staying},
		{"an answer that is lost", lostAnswers},
		{"the end of the context", canceled},
		{"labels that fail", labelsFail},
		{"hostile answers", hostile},
		{"a redirect away", redirectAway},
		{"issues", issues},
		{"the states of a request", states},
		{"the token's form", tokenForm},
		{"remarks", remarks},
		{"checks", checks},
		{"remarks of nobody known", nobody},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newFixture(t, kind, open))
		})
	}
}

// issues are read with and without a token, with a bounded number of comments.
func issues(f *fixture) {
	long := make([]forgeserver.IssueComment, 0, 200)
	for i := range 200 {
		long = append(long, forgeserver.IssueComment{Author: "bo", Body: "comment " + itoa(int64(i))})
	}
	f.server.AddIssue(forgeserver.Issue{Repository: f.repo.Path, Number: 12, Title: "Sums are wrong", Body: "2 + 3 is 6", Author: "ann", Comments: []forgeserver.IssueComment{
		{Author: "bo", Body: "I see it too."}, {Author: "cy", Body: "And 3 + 4."},
	}})
	f.server.AddIssue(forgeserver.Issue{Repository: f.repo.Path, Number: 13, Title: "Long", Author: "ann", Comments: long})
	i, err := f.forge(tokenReader, "plot").Issue(f.t.Context(), 12)
	if err != nil || i.Number != 12 || i.Title != "Sums are wrong" || i.Body != "2 + 3 is 6" || i.Author != "ann" || i.More || !strings.HasPrefix(i.URL, f.url) ||
		!slices.Equal(i.Comments, []forge.Comment{{Author: "bo", Body: "I see it too."}, {Author: "cy", Body: "And 3 + 4."}}) {
		f.t.Errorf("%+v, %v", i, err)
	}
	if i, err = f.writer().Issue(f.t.Context(), 13); err != nil || len(i.Comments) != forge.MaxComments || !i.More {
		f.t.Errorf("%d comments, more %t, %v", len(i.Comments), i.More, err)
	}
	_, err = f.writer().Issue(f.t.Context(), 14)
	f.want(err, api.KindNotFound)
	f.repo.Public = true
	before := len(f.server.Calls())
	public := f.forge("", "plot", func(c *rest.Config) { c.Public = true })
	if i, err = public.Issue(f.t.Context(), 12); err != nil || i.Number != 12 {
		f.t.Errorf("%+v, %v", i, err)
	}
	for _, c := range f.server.Calls()[before:] {
		if c.Header.Get("Authorization") != "" {
			f.t.Errorf("a call without a token has %q", c.Header.Get("Authorization"))
		}
	}
}

// states are those of requests that were merged or closed.
func states(f *fixture) {
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, want := range []string{forge.Open, forge.Closed, forge.Merged} {
		f.server.Change(f.repo.Path, mr.Number, func(p *forgeserver.Pull) { p.State = want })
		if got, err := f.writer().State(f.t.Context(), mr.Number); err != nil || got != want {
			f.t.Errorf("%s: %q, %v", want, got, err)
		}
	}
	_, err = f.writer().State(f.t.Context(), 99)
	f.want(err, api.KindNotFound)
}

func repository(f *fixture) {
	for token, complete := range map[string]bool{tokenAdmin: true, tokenReader: f.kind == forge.GitHub} {
		r, err := f.forge(token, "plot").Repository(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if r.DefaultBranch != "main" || r.URL != f.url+"/forge/"+f.repo.Path || r.Archived || r.ProtectedComplete != complete {
			f.t.Errorf("%s: %+v", token, r)
		}
		if complete && !slices.Equal(r.Protected, f.repo.Protected) {
			f.t.Errorf("%s: protected are %q", token, r.Protected)
		}
	}
	r, err := f.forge(tokenWriter, "old").Repository(f.t.Context())
	if err != nil || !r.Archived {
		f.t.Errorf("archived: %+v, %v", r, err)
	}
	if n := f.writer().Name(); n != f.kind {
		f.t.Errorf("its name is %q", n)
	}
}

func probed(f *fixture) {
	l := forge.Location{Host: "h", Web: f.url + "/forge", Owner: "o", Name: "n"}
	l, err := forge.Probe(f.t.Context(), l, nil)
	if err != nil || l.Kind != f.kind {
		f.t.Errorf("%+v, %v", l, err)
	}
	for _, c := range f.server.Calls() {
		if c.Token != "" {
			f.t.Errorf("a probe gave a token to %s", c.Path)
		}
	}
}

func opens(f *fixture) {
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	pulls := f.server.Pulls()
	if len(pulls) != 1 || !mr.Created || mr.Updated || mr.Foreign || mr.Draft || mr.State != "open" || mr.Number != pulls[0].Number {
		f.t.Fatalf("%+v, the server has %+v", mr, pulls)
	}
	p := pulls[0]
	if p.Source != "hortus/one" || p.Target != "main" || p.Title != "Mend the fence" || p.Draft || p.Author != "hortus" ||
		!strings.HasPrefix(p.Body, "It was broken.\n\nNow it is not.\n") || !strings.HasSuffix(p.Body, forge.Marker+"\n") {
		f.t.Errorf("the server has %+v", p)
	}
	if !strings.HasPrefix(mr.URL, f.url+"/forge/"+f.repo.Path+"/") {
		f.t.Errorf("its address is %s", mr.URL)
	}
}

func opensDraft(f *fixture) {
	req := f.request()
	req.Draft, req.Labels = true, []string{"garden", "made by Hortus"}
	mr, err := f.writer().Open(f.t.Context(), req)
	if err != nil {
		f.t.Fatal(err)
	}
	p := f.server.Pulls()[0]
	if !mr.Draft || !p.Draft || p.Title != "Mend the fence" || !slices.Equal(p.Labels, req.Labels) {
		f.t.Errorf("%+v, the server has %+v", mr, p)
	}
	before := f.writes()
	mr, err = f.writer().Open(f.t.Context(), req)
	if err != nil || mr.Created || mr.Updated || f.writes() != before {
		f.t.Errorf("again: %+v, %v; %d calls that write", mr, err, f.writes()-before)
	}
	req.Labels = append(req.Labels, "later")
	mr, err = f.writer().Open(f.t.Context(), req)
	if p := f.server.Pulls()[0]; err != nil || !mr.Updated || !slices.Equal(p.Labels, req.Labels) {
		f.t.Errorf("one more label: %+v, %v; the server has %+v", mr, err, p)
	}
	// A draft is none of the contract at a repository that has no drafts.
	if f.kind == forge.GitHub {
		req := f.request()
		req.Draft = true
		_, err := f.forge(tokenWriter, "new").Open(f.t.Context(), req)
		f.want(err, api.KindUnsupported)
	}
}

func again(f *fixture) {
	first, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	// A forge may keep the ends of lines in another way.
	f.server.Change(f.repo.Path, first.Number, func(p *forgeserver.Pull) { p.Body = strings.ReplaceAll(p.Body, "\n", "\r\n") })
	before := f.writes()
	second, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || second.Number != first.Number || second.URL != first.URL || second.Created || second.Updated || f.writes() != before {
		f.t.Errorf("%+v, %v, %d calls that write", second, err, f.writes()-before)
	}
	// The other branch is another request.
	req := f.request()
	req.Source = "hortus/two"
	third, err := f.writer().Open(f.t.Context(), req)
	if err != nil || !third.Created || third.Number == first.Number {
		f.t.Errorf("%+v, %v", third, err)
	}
}

func updates(f *fixture) {
	first, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	req := f.request()
	req.Title, req.Body = "Mend the gate", "Another text."
	mr, err := f.writer().Open(f.t.Context(), req)
	p := f.server.Pulls()[0]
	if err != nil || mr.Number != first.Number || !mr.Updated || mr.Created || p.Title != req.Title || !strings.HasPrefix(p.Body, req.Body) || !strings.Contains(p.Body, forge.Marker) {
		f.t.Errorf("%+v, %v; the server has %+v", mr, err, p)
	}
}

func readied(f *fixture) {
	req := f.request()
	req.Draft = true
	mr, err := f.writer().Open(f.t.Context(), req)
	if err != nil || !mr.Draft {
		f.t.Fatal(mr, err)
	}
	req.Title = "Mend the gate"
	if mr, err = f.writer().Open(f.t.Context(), req); err != nil || !mr.Draft || !f.server.Pulls()[0].Draft {
		f.t.Errorf("a draft was made ready by an update: %+v, %v", mr, err)
	}
	f.server.Change(f.repo.Path, mr.Number, func(p *forgeserver.Pull) { p.Draft = false })
	req.Title = "Mend the wall"
	mr, err = f.writer().Open(f.t.Context(), req)
	if p := f.server.Pulls()[0]; err != nil || mr.Draft || p.Draft || p.Title != req.Title {
		f.t.Errorf("what a person made ready is a draft again: %+v, %v; the server has %+v", mr, err, p)
	}
}

func foreign(f *fixture) {
	n := f.server.Add(forgeserver.Pull{Repository: f.repo.Path, Source: "hortus/one", Target: "main", Title: "Mine", Body: "my words", Author: "ann"})
	req := f.request()
	req.Labels = []string{"x"}
	mr, err := f.writer().Open(f.t.Context(), req)
	p := f.server.Pulls()[0]
	if err != nil || !mr.Foreign || mr.Created || mr.Updated || mr.Number != n || p.Title != "Mine" || p.Body != "my words" || len(p.Labels) != 0 || f.writes() != 0 {
		f.t.Errorf("%+v, %v; the server has %+v", mr, err, p)
	}
}

// forks: who opens a request from a fork with a branch of the same name must not
// have it mistaken for ours, with a body of ours in it.
func forks(f *fixture) {
	f.server.Add(forgeserver.Pull{Repository: f.repo.Path, Source: "hortus/one", Target: "main", Title: "Evil", Body: forge.Marker, Author: "eve", Fork: true})
	// At GitHub a fork may belong to the owner of the repository.
	f.server.Add(forgeserver.Pull{Repository: f.repo.Path, Source: "hortus/one", Target: "main", Title: "Evil too", Body: forge.Marker, Author: "garden", Fork: true})
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || !mr.Created || mr.Number != 3 {
		f.t.Errorf("%+v, %v", mr, err)
	}
	mr, err = f.writer().Open(f.t.Context(), f.request())
	if err != nil || mr.Created || mr.Number != 3 || f.server.Pulls()[0].Title != "Evil" || f.server.Pulls()[1].Title != "Evil too" {
		f.t.Errorf("again: %+v, %v", mr, err)
	}
}

func otherTarget(f *fixture) {
	if _, err := f.writer().Open(f.t.Context(), f.request()); err != nil {
		f.t.Fatal(err)
	}
	req := f.request()
	req.Target = "release"
	_, err := f.writer().Open(f.t.Context(), req)
	f.want(err, api.KindConflict)
	if n := len(f.server.Pulls()); n != 1 || !strings.Contains(err.Error(), f.url) {
		f.t.Errorf("%d requests, %v", n, err)
	}
}

func closed(f *fixture) {
	first, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	f.server.Change(f.repo.Path, first.Number, func(p *forgeserver.Pull) { p.State = "merged" })
	second, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || !second.Created || second.Number == first.Number {
		f.t.Errorf("%+v, %v", second, err)
	}
}

func many(f *fixture) {
	first, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil {
		f.t.Fatal(err)
	}
	for range 230 {
		f.server.Add(forgeserver.Pull{Repository: f.repo.Path, Source: "hortus/two", Target: "release", Title: "t", Author: "ann", Fork: true})
		f.server.Add(forgeserver.Pull{Repository: f.repo.Path, Source: "hortus/one", Target: "release", Title: "t", Author: "garden", Fork: true})
	}
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || mr.Created || mr.Number != first.Number {
		f.t.Errorf("%+v, %v", mr, err)
	}
}

// together: many calls at once leave one request.
func together(f *fixture) {
	impl := f.writer()
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 8 {
		wg.Go(func() {
			mr, err := impl.Open(f.t.Context(), f.request())
			mu.Lock()
			defer mu.Unlock()
			if err != nil || mr.Number != 1 {
				f.t.Errorf("%+v, %v", mr, err)
			}
			if mr.Created {
				made++
			}
		})
	}
	wg.Wait()
	if n := len(f.server.Pulls()); n != 1 || made != 1 {
		f.t.Errorf("%d requests, made %d times", n, made)
	}
}

// faster: between looking and making, somebody else makes it.
func faster(f *fixture) {
	if _, err := f.writer().Open(f.t.Context(), f.request()); err != nil {
		f.t.Fatal(err)
	}
	path := "/pulls"
	if f.kind == forge.GitLab {
		path = "/merge_requests"
	}
	f.server.Fail(forgeserver.Fault{Method: "GET", Path: path, Status: 200, Body: "[]"})
	mr, err := f.writer().Open(f.t.Context(), f.request())
	if err != nil || mr.Created || mr.Number != 1 || len(f.server.Pulls()) != 1 {
		f.t.Errorf("%+v, %v", mr, err)
	}
}
