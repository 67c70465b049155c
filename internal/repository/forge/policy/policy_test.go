package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"hortus.dev/api"
)

func rules(rs []Refusal) string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Rule)
	}
	return strings.Join(all, " ")
}

func delivery(files ...File) Delivery {
	return Delivery{Branch: "hortus/4f2a", Target: "main", Default: "main", Files: files}
}

func changed(path string) File { return File{Path: path, Status: "changed", Mode: 0o100644} }

func TestGood(t *testing.T) {
	d := delivery(
		changed("internal/x/y.go"),
		File{Path: "docs/guide.md", Status: "added", Added: 100, Size: 4000, Mode: 0o100644},
		File{Path: "bin/run", From: "run", Status: "renamed", Mode: 0o100755},
		File{Path: "gone", Status: "removed", Deleted: 5},
		File{Path: "link", Status: "added", Mode: 0o120000},
		File{Path: "ci.yml", From: ".github/workflows/ci.yml", Status: "copied", Mode: 0o100644},
		changed(".github/ISSUE_TEMPLATE/bug.md"), changed("github/workflows/ci.yml"), changed("x.gitmodules"), changed("a/.gitignore"),
		changed("über/mich (1).txt"), changed(".vscodex"), changed("Jenkins"),
	)
	if rs := Default().Check(d); len(rs) != 0 {
		t.Errorf("%+v", rs)
	}
	if err := Error(nil); err != nil {
		t.Error(err)
	}
}

func TestBranches(t *testing.T) {
	for _, tt := range []struct {
		branch, target string
		protected      []string
		want           string
	}{
		{"hortus/x", "main", nil, ""},
		{"hortus/x", "main", []string{"main", "release-*", "v[0-9]", "{a,b}"}, ""},
		{"hortus/x/y", "main", nil, "branch"},
		{"other/x", "main", nil, "branch"},
		{"Hortus/x", "main", nil, "branch"},
		{"main", "develop", nil, "branch protected protected"},
		{"MAIN", "develop", nil, "branch protected protected"},
		{"release/1/2", "main", nil, "branch protected"},
		{"hortus/x", "hortus/x", nil, "protected"},
		{"hortus/x", "HORTUS/X", nil, "protected"},
		{"hortus/x", "", nil, ""}, // a branch is all
		{"", "", nil, "branch"},
		{"hortus/x", "a b", nil, "target"},
		{"hortus/x y", "main", nil, "branch"},
		{"hortus/-x/..", "main", nil, "branch"},
		{"hortus/x", "main", []string{"hortus/x"}, "protected"},
		{"hortus/x", "main", []string{"Hortus/*"}, "protected"},
		{"hortus/x", "main", []string{"*"}, "protected"},
		{"hortus/x", "main", []string{"h*x"}, "protected"},
		{"hortus/x", "main", []string{"*/x", "*y", "h*z*x"}, "protected"},
		{"hortus/x", "main", []string{"[broken"}, "protected"},
		{"hortus/x", "main", []string{strings.Repeat("a", 1000)}, "protected"},
	} {
		d := Delivery{Branch: tt.branch, Target: tt.target, Default: "main", Protected: tt.protected}
		if got := rules(Default().Check(d)); got != tt.want {
			t.Errorf("%s to %s (%q): %q, want %q", tt.branch, tt.target, tt.protected, got, tt.want)
		}
	}
}

// Every default is known to refuse something, in any case.
func TestForbidden(t *testing.T) {
	for _, path := range []string{
		".github/workflows/ci.yml", ".GitHub/Workflows/CI.yml", ".github/workflows", ".github", ".github/actions/x/action.yml",
		"tools/act/action.yaml", ".github/dependabot.yml", ".gitlab-ci.yml", ".gitlab-ci.yaml", "sub/.gitlab-ci.yml", "ci/build.gitlab-ci.yml",
		".gitlab/ci/x.yml", ".gitea/workflows/a.yaml", ".forgejo/workflows/a.yaml", ".circleci/config.yml", "Jenkinsfile", "jenkinsfile", "ci/Jenkinsfile.nightly",
		"azure-pipelines.yml", "azure-pipelines-pr.yaml", ".azuredevops/p.yml", ".azure-pipelines/x", "bitbucket-pipelines.yml", ".drone.yml", ".drone.star",
		".travis.yml", ".buildkite/pipeline.yml", ".woodpecker.yml", ".woodpecker/a.yml", ".cirrus.yml", "appveyor.yml", ".appveyor.yml",
		".teamcity/s.kts", ".tekton/x.yaml", ".semaphore/s.yml", ".builds/a.yml", ".build.yml", "cloudbuild.yaml", "buildspec.yml",
		"CODEOWNERS", "docs/CODEOWNERS", ".github/CODEOWNERS", ".gitlab/CODEOWNERS", "codeowners", ".gitmodules", "a/.gitmodules", ".lfsconfig", ".gitattributes", "a/b/.gitattributes",
		".husky/pre-commit", ".husky", ".githooks/pre-push", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.toml", ".vscode/tasks.json", "pkg/.vscode/settings.json", ".VSCode/Tasks.json",
		".vscode", "pkg/.vscode", "x.code-workspace", ".idea/workspace.xml", ".envrc", "a/.envrc", ".devcontainer/devcontainer.json", ".devcontainer.json",
		".mcp.json", ".claude/settings.local.json", ".claude/hooks/x", ".claude", ".cursor/mcp.json",
		// As Windows and macOS would read them.
		".envrc ", ".envrc.", ".envrc::$DATA", ".env\u200crc", ".github./workflows /x.yml", "\u017f/../x", ".hu\u017fky/x",
	} {
		rs := Default().Check(delivery(changed(path)))
		if got := rules(rs); got != "forbidden" && !(strings.Contains(path, "..") && got == "path") {
			t.Errorf("%q: %q", path, got)
		}
		// The control: without the rule it goes.
		open := Default()
		open.Forbidden = nil
		if got := rules(open.Check(delivery(changed(path)))); got != "" && !strings.Contains(path, "..") {
			t.Errorf("%q without rules: %q", path, got)
		}
	}
}

func TestRenames(t *testing.T) {
	for _, f := range []File{
		{Path: "x.yml", From: ".github/workflows/ci.yml", Status: "renamed", Mode: 0o100644},
		{Path: ".github/workflows/ci.yml", From: "x.yml", Status: "renamed", Mode: 0o100644},
		{Path: ".github/workflows/ci.yml", From: "x.yml", Status: "copied", Mode: 0o100644},
		{Path: ".github/workflows/ci.yml", Status: "removed"},
	} {
		if got := rules(Default().Check(delivery(f))); got != "forbidden" {
			t.Errorf("%+v: %q", f, got)
		}
	}
	p := Default()
	p.Allow = []string{".github/workflows/docs.yml"}
	if rs := p.Check(delivery(changed(".github/workflows/docs.yml"))); len(rs) != 0 {
		t.Errorf("%+v", rs)
	}
	for _, path := range []string{".github/workflows/Docs.yml", ".github/workflows/ci.yml"} {
		if got := rules(p.Check(delivery(changed(path)))); got != "forbidden" {
			t.Errorf("%s: %q", path, got)
		}
	}
	f := File{Path: ".github/workflows/docs.yml", From: ".github/workflows/ci.yml", Status: "renamed", Mode: 0o100644}
	if got := rules(p.Check(delivery(f))); got != "forbidden" {
		t.Errorf("from a forbidden one to an allowed one: %q", got)
	}
}

func TestPathsAndModes(t *testing.T) {
	for _, path := range []string{
		"", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", ".git/config", "a/.GIT/hooks/x", ".git /x", ".g\u200dit/x", "git~1/x", "GIT~2/config",
		".git::$INDEX_ALLOCATION/x", `a\b`, "a\nb", "a\x00b", "a\xffb", "...", "a/ /b", strings.Repeat("a/", 3000) + "b",
	} {
		p := Default()
		p.Allow = []string{"**"}
		rs := p.Check(delivery(changed(path)))
		if rules(rs) != "path" {
			t.Errorf("%.40q: %+v", path, rs)
		}
	}
	for _, tt := range []struct {
		f    File
		want string
	}{
		{File{Path: "x", Status: "added", Mode: 0o160000}, "mode"},
		{File{Path: "x", Status: "added", Mode: 0o104755}, "mode"},
		{File{Path: "x", Status: "added"}, "mode"},
		{File{Path: "x", Status: "odd", Mode: 0o100644}, "path"},
		{File{Path: "x", From: "y", Status: "changed", Mode: 0o100644}, "path"},
		{File{Path: "x", Status: "renamed", Mode: 0o100644}, "path"},
		{File{Path: "x", Status: "added", Mode: 0o100644, Size: -1}, "lines"},
	} {
		if got := rules(Default().Check(delivery(tt.f))); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.f, got, tt.want)
		}
	}
	p := Default()
	p.Allow = []string{"vendored/*"}
	if rs := p.Check(delivery(File{Path: "vendored/x", Status: "added", Mode: 0o160000})); len(rs) != 0 {
		t.Errorf("an allowed submodule: %+v", rs)
	}
}

func TestBounds(t *testing.T) {
	p := Default()
	p.MaxFiles, p.MaxLines, p.MaxBytes = 2, 10, 100
	f := File{Path: "x", Status: "changed", Added: 3, Deleted: 2, Size: 50, Mode: 0o100644}
	if rs := p.Check(delivery(f, f)); len(rs) != 0 {
		t.Errorf("at the bound: %+v", rs)
	}
	if got := rules(p.Check(delivery(f, f, f))); got != "files lines bytes" {
		t.Error(got)
	}
	f.Added, f.Size = math.MaxInt, math.MaxInt64
	if got := rules(p.Check(delivery(f, f))); got != "lines bytes" {
		t.Errorf("sums that go around: %s", got)
	}
	p.MaxFiles = 10_000
	var files []File
	for i := range 10_000 {
		files = append(files, changed(fmt.Sprintf(".github/workflows/%d.yml", i)))
	}
	rs := p.Check(delivery(files...))
	if len(rs) != maxRefusals {
		t.Errorf("%d refusals", len(rs))
	}
	err := Error(rs)
	if api.KindOf(err) != api.KindDenied || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "95 more reasons") {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	p := Default()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Forbidden[0] = "changed"
	if Default().Forbidden[0] == "changed" {
		t.Error("policies share their lists")
	}
	for name, change := range map[string]func(*Policy){
		"no branch":          func(p *Policy) { p.Branch = "" },
		"no pattern":         func(p *Policy) { p.Branch = "[" },
		"every branch":       func(p *Policy) { p.Branch = "**" },
		"no lines":           func(p *Policy) { p.MaxLines = 0 },
		"no files":           func(p *Policy) { p.MaxFiles = 0 },
		"below no bytes":     func(p *Policy) { p.MaxBytes = -1 },
		"an empty path":      func(p *Policy) { p.Forbidden = []string{""} },
		"an absolute path":   func(p *Policy) { p.Forbidden = []string{"/x"} },
		"a folder":           func(p *Policy) { p.Forbidden = []string{"x/"} },
		"a broken one":       func(p *Policy) { p.Allow = []string{"{a"} },
		"a long one":         func(p *Policy) { p.Protected = []string{strings.Repeat("x", maxPattern+1)} },
		"more than are read": func(p *Policy) { p.Allow = make([]string, maxPatterns+1) },
	} {
		p := Default()
		change(&p)
		if err := p.Validate(); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if rs := p.Check(delivery()); len(rs) == 0 {
			t.Errorf("%s: it lets things pass", name)
		}
	}
	if rs := (Policy{}).Check(delivery()); len(rs) == 0 {
		t.Error("a zero policy lets things pass")
	}
}

// FuzzCheck: whatever a path is, one that passes stays inside the repository, is
// not git's own, and is no forbidden one in another spelling.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{".github/workflows/x", "a/b", ".GIT/x", "a/../b", ".env\u200crc", "x:y", ". /x"} {
		f.Add(s, "hortus/x")
	}
	f.Fuzz(func(t *testing.T, path, branch string) {
		d := delivery(changed(path))
		d.Branch = branch
		rs := Default().Check(d)
		if len(rs) > 0 {
			if err := Error(rs); strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Errorf("%q", err)
			}
			return
		}
		low := strings.ToLower(path)
		for _, g := range forbidden {
			if ok, _ := doublestar.Match(strings.ToLower(g), low); ok {
				t.Errorf("%q passed against %s", path, g)
			}
		}
		for _, part := range strings.Split(low, "/") {
			if part == ".git" || part == ".." || part == "" {
				t.Errorf("%q passed", path)
			}
		}
		if !strings.HasPrefix(branch, "hortus/") {
			t.Errorf("the branch %q passed", branch)
		}
	})
}
