package policy

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// ids are what branches end with.
var ids = []string{"t4f2a", "t4f2a-2", "p1-item"}

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

// operator is a policy that leaves choices.
func operator() Policy {
	p := Default()
	p.Branch, p.MaxFiles, p.MaxLines, p.Targets, p.Draft = "bots/**", 10, 100, []string{"main", "next/*"}, true
	p.Protected = append(p.Protected, "bots/admin-*")
	p.Allow = []string{"ci/**"}
	return p
}

// TestAdmit: a repository chooses within the operator's policy. Each choice outside of it is refused with the reason; the control beside it is not.
func TestAdmit(t *testing.T) {
	many := make([]string, api.MaxRepositoryPatterns+1)
	for i := range many {
		many[i] = "x"
	}
	for name, c := range map[string]struct {
		own  api.RepositoryPolicy
		kind api.Kind
		why  string
	}{
		"nothing":                 {api.RepositoryPolicy{}, "", ""},
		"all of it":               {api.RepositoryPolicy{Prefix: "bots/shop/", Target: "next/1", Draft: yes(), Exists: api.BranchRenamed, MaxFiles: 10, MaxLines: 99, Protected: []string{"bots/old-*"}, Forbidden: []string{"ci/**"}}, "", ""},
		"another folder":          {api.RepositoryPolicy{Prefix: "fix/"}, api.KindDenied, "does not match bots/**"},
		"no folder":               {api.RepositoryPolicy{Prefix: "x"}, api.KindDenied, "does not match bots/**"},
		"a protected prefix":      {api.RepositoryPolicy{Prefix: "bots/admin-"}, api.KindDenied, "is protected by bots/admin-*"},
		"a prefix of a path":      {api.RepositoryPolicy{Prefix: "bots/../"}, api.KindInvalid, "is no name of a branch"},
		"a prefix with a pattern": {api.RepositoryPolicy{Prefix: "bots/*"}, api.KindInvalid, "is no name of a branch"},
		"an option":               {api.RepositoryPolicy{Prefix: "-bots/"}, api.KindInvalid, "begins with -"},
		"another target":          {api.RepositoryPolicy{Target: "production"}, api.KindDenied, "may aim at main, next/*"},
		"a target of two words":   {api.RepositoryPolicy{Target: "a b"}, api.KindInvalid, "is no name of a branch"},
		"no drafts":               {api.RepositoryPolicy{Draft: no()}, api.KindDenied, "every merge request must be a draft"},
		"more files":              {api.RepositoryPolicy{MaxFiles: 11}, api.KindDenied, "max-files 11: the maximum is 10"},
		"more lines":              {api.RepositoryPolicy{MaxLines: 101}, api.KindDenied, "max-lines 101: the maximum is 100"},
		"fewer than no files":     {api.RepositoryPolicy{MaxFiles: -1}, api.KindInvalid, "below 0"},
		"something else":          {api.RepositoryPolicy{Exists: "overwrite"}, api.KindInvalid, "is not what can happen"},
		"no pattern":              {api.RepositoryPolicy{Forbidden: []string{"["}}, api.KindInvalid, "is no pattern"},
		"an empty pattern":        {api.RepositoryPolicy{Protected: []string{""}}, api.KindInvalid, "is no pattern"},
		"many patterns":           {api.RepositoryPolicy{Protected: many}, api.KindInvalid, "too many patterns"},
		"two reasons":             {api.RepositoryPolicy{Draft: no(), MaxFiles: 11}, api.KindDenied, "draft; max-files 11"},
	} {
		err := operator().Admit(c.own, ids)
		if c.kind == "" && err != nil || c.kind != "" && (api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithin: for each delivery, the stricter of both policies holds, also if the operator's became stricter after the repository's was saved.
func TestWithin(t *testing.T) {
	good := Delivery{Branch: "bots/x", Target: "main", Draft: true, Files: []File{{Path: "a", Status: "changed", Added: 5, Mode: 0o100644}, {Path: "ci/x", Status: "changed", Mode: 0o100644}}}
	ci := append([]string{"ci/**"}, Default().Forbidden...)
	for name, c := range map[string]struct {
		own    api.RepositoryPolicy
		change func(*Policy, *Delivery)
		want   string
	}{
		"the operator's alone": {want: ""},
		"nothing is weaker": {own: api.RepositoryPolicy{Prefix: "fix/", Draft: no(), MaxFiles: 1 << 20, MaxLines: 1 << 20}, change: func(_ *Policy, d *Delivery) {
			d.Branch, d.Draft, d.Files = "fix/x", false, slices.Repeat(d.Files[:1], 11)
		}, want: "branch draft files"},
		"fewer files":           {own: api.RepositoryPolicy{MaxFiles: 1}, want: "files"},
		"fewer lines":           {own: api.RepositoryPolicy{MaxLines: 4}, want: "lines"},
		"the operator's files":  {own: api.RepositoryPolicy{MaxFiles: 8}, change: func(p *Policy, _ *Delivery) { p.MaxFiles = 1 }, want: "files"},
		"another protected one": {own: api.RepositoryPolicy{Protected: []string{"BOTS/*"}}, want: "protected"},
		"drafts":                {own: api.RepositoryPolicy{Draft: yes()}, change: func(p *Policy, d *Delivery) { p.Draft, d.Draft = false, false }, want: "draft"},
		"no drafts":             {change: func(p *Policy, d *Delivery) { p.Draft, d.Draft = false, false }, want: ""},
		"another target":        {change: func(_ *Policy, d *Delivery) { d.Target = "next" }, want: "target"},
		"a target of a stack":   {change: func(_ *Policy, d *Delivery) { d.Target, d.Stacked = "bots/y", true }, want: ""},
		"no request":            {change: func(_ *Policy, d *Delivery) { d.Target, d.Draft = "", false }, want: ""},
		"an exception":          {change: func(p *Policy, _ *Delivery) { p.Forbidden = ci }, want: ""},
		"no exception of the operator's counts for the repository": {own: api.RepositoryPolicy{Forbidden: []string{"CI/**"}}, change: func(p *Policy, _ *Delivery) { p.Forbidden = ci }, want: "forbidden"},
	} {
		p, d := operator(), good
		if c.change != nil {
			c.change(&p, &d)
		}
		if got := rules(p.Within(c.own).Check(d)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for branch, want := range map[string]string{
		"hortus/*": "hortus/", "hortus/**": "hortus/", "**/t*": "hortus/", "bots/*": "bots/", "bots/**": "bots/", "bots/{a,b}-*": "hortus/", "bots/x": "hortus/",
	} {
		if got := (Policy{Branch: branch}).Prefix("t4f2a"); got != want {
			t.Errorf("%s: %s, want %s", branch, got, want)
		}
	}
}
