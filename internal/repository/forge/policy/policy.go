package policy

import (
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"hortus.dev/api"
)

// Policy defines what may be delivered. Start with [Default]: the zero Policy refuses
// everything.
type Policy struct {
	// Branch is the pattern that a delivered branch must match.
	Branch string
	// Protected are patterns of branches that are never pushed to.
	Protected []string
	// MaxFiles, MaxLines and MaxBytes bound one delivery: changed files, lines
	// added and removed, and the bytes of the files that it adds or changes.
	MaxFiles int
	MaxLines int
	MaxBytes int64
	// Forbidden are patterns of paths that a delivery must not touch.
	Forbidden []string
	// Allow are exceptions from Forbidden, and from the refusal of submodules.
	Allow []string
	// Also are patterns of more paths that a delivery must not touch, without exceptions.
	Also []string
	// Targets are patterns of the branches that merge requests may aim at; empty for all.
	Targets []string
	// Draft has every merge request be a draft.
	Draft bool
}

// Default returns the default policy.
func Default() Policy {
	return Policy{
		Branch:    "hortus/*",
		Protected: []string{"main", "master", "trunk", "develop", "release", "release/**", "production", "stable"},
		MaxFiles:  300, MaxLines: 20_000, MaxBytes: 20 << 20,
		Forbidden: slices.Clone(forbidden[:]),
	}
}

// forbidden are files that a machine uses before a person has read them: CI with its
// secrets, hooks, what an editor, a shell or another agent runs when it opens a folder; and
// files that select reviewers and checks.
var forbidden = [...]string{
	".github/workflows/**", ".github/actions/**", "**/action.{yml,yaml}", ".github/dependabot.{yml,yaml}",
	"**/.gitlab-ci.{yml,yaml}", "**/*.gitlab-ci.{yml,yaml}", ".gitlab/**",
	".gitea/**", ".forgejo/**", ".circleci/**", "**/Jenkinsfile*",
	"**/azure-pipelines*.{yml,yaml}", ".azuredevops/**", ".azure-pipelines/**", "bitbucket-pipelines.{yml,yaml}",
	".drone.*", ".travis.yml", ".buildkite/**", ".woodpecker*", ".woodpecker/**", ".cirrus.*",
	"{.,}appveyor.{yml,yaml}", ".teamcity/**", ".tekton/**", ".semaphore/**", ".builds/**", ".build.yml",
	"cloudbuild.{yml,yaml,json}", "buildspec.{yml,yaml}",
	"**/CODEOWNERS", "**/.gitmodules", "**/.lfsconfig",
	// It can hide changes of a file from reviewers.
	"**/.gitattributes",
	".husky/**", ".githooks/**", "**/.pre-commit-config.{yml,yaml}", "{.,}lefthook*.{yml,yaml,toml,json}",
	"**/.vscode/{tasks,launch,settings,mcp}.json", "**/*.code-workspace", "**/.idea/**",
	"**/.envrc", "**/.devcontainer/**", "**/.devcontainer.json",
	"**/.mcp.json", "**/.claude/settings*.json", "**/.claude/hooks/**", "**/.cursor/{mcp,hooks}.json",
}

// Limits of a policy.
const (
	maxPatterns = 1000
	maxPattern  = 256
)

// Validate returns KindInvalid for an invalid policy.
func (p Policy) Validate() error {
	if err := pattern("branch", p.Branch); err != nil {
		return err
	}
	if p.Branch == "*" || p.Branch == "**" {
		return api.Errorf(api.KindInvalid, "the branch pattern %q is every branch", p.Branch).
			WithHint("Give delivered branches a folder of their own, for example hortus/*.")
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"protected", p.Protected}, {"forbidden", p.Forbidden}, {"allow", p.Allow}, {"forbidden", p.Also}, {"targets", p.Targets}} {
		if len(list.patterns) > maxPatterns {
			return api.Errorf(api.KindInvalid, "%s has %d patterns; the most is %d", list.name, len(list.patterns), maxPatterns)
		}
		for _, g := range list.patterns {
			if err := pattern(list.name, g); err != nil {
				return err
			}
		}
	}
	if p.MaxFiles <= 0 || p.MaxLines <= 0 || p.MaxBytes <= 0 {
		return api.Errorf(api.KindInvalid, "the bounds of a policy must be above 0: max-files %d, max-lines %d, max-bytes %d", p.MaxFiles, p.MaxLines, p.MaxBytes)
	}
	return nil
}

func pattern(list, g string) error {
	switch {
	case g == "", len(g) > maxPattern, !doublestar.ValidatePattern(g):
		return api.Errorf(api.KindInvalid, "%s: %.80q is no pattern", list, g)
	case g[0] == '/', g[len(g)-1] == '/':
		return api.Errorf(api.KindInvalid, "%s: the pattern %.80q begins or ends with /", list, g).
			WithHint("Patterns are relative to the repository's root; a folder with all in it is x/**.")
	}
	return nil
}

// Delivery is what is pushed and proposed.
type Delivery struct {
	// Branch is pushed; Target is the target of the request, empty without a request.
	Branch, Target string
	// Draft is true for a request that is a draft, Stacked if the target is a branch that the same delivery pushes.
	Draft, Stacked bool
	// Default is the repository's default branch; Protected are the names or the forge's
	// patterns of protected branches.
	Default   string
	Protected []string
	Files     []File
}

// File is a changed path.
type File struct {
	Path string
	// From is the path before a rename or a copy.
	From string
	// Status is "added", "changed", "removed", "renamed" or "copied".
	Status         string
	Added, Deleted int
	// Size is the file's after the change, in bytes.
	Size int64
	// Mode is git's, after the change: 0o100644, 0o100755, 0o120000 for a link,
	// 0o160000 for a submodule; 0 for a removed file.
	Mode uint32
}

// Refusal is a reason to refuse a delivery.
type Refusal struct {
	// Rule is "branch", "protected", "target", "draft", "files", "lines", "bytes", "path",
	// "mode" or "forbidden".
	Rule string
	// Path is that of the file, if any. It is untrusted.
	Path string
	// Why is a sentence for people.
	Why string
}

// Error returns KindDenied with the first few refusals, or nil for none.
func Error(refusals []Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	text := ""
	for i, r := range refusals[:min(len(refusals), 5)] {
		if i > 0 {
			text += "; "
		}
		if r.Path != "" {
			text += quote(r.Path) + ": "
		}
		text += r.Why
	}
	if more := len(refusals) - 5; more > 0 {
		text += "; and " + plural(more, "more reason")
	}
	return api.Errorf(api.KindDenied, "the policy refuses this delivery: %s", text).
		WithHint("The work is kept. Change it, or let an operator change the policy.")
}
