package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// DefaultPrefix begins the names of delivered branches unless a policy has another prefix.
const DefaultPrefix = "hortus/"

// Prefix returns what begins the names of delivered branches. It is DefaultPrefix if branches with it match, and otherwise what stands
// before the * at the end of Branch. id is an ID that a branch could end with.
func (p Policy) Prefix(id string) string {
	prefix := strings.TrimRight(p.Branch, "*")
	if doublestar.MatchUnvalidated(p.Branch, DefaultPrefix+id) || strings.ContainsAny(prefix, `*?[]{}\`) || !doublestar.MatchUnvalidated(p.Branch, prefix+id) {
		return DefaultPrefix
	}
	return prefix
}

// Within returns the policy that holds for a repository with a policy of its own: what both allow.
func (p Policy) Within(own api.RepositoryPolicy) Policy {
	p.Protected = slices.Concat(p.Protected, own.Protected)
	p.Also = slices.Concat(p.Also, own.Forbidden)
	p.MaxFiles = min(p.MaxFiles, cmp.Or(own.MaxFiles, p.MaxFiles))
	p.MaxLines = min(p.MaxLines, cmp.Or(own.MaxLines, p.MaxLines))
	p.Draft = p.Draft || own.Draft != nil && *own.Draft
	return p
}

// Admit returns why the policy of a repository cannot be chosen, or nil: KindInvalid for one that makes no sense, KindDenied for a choice that p does not
// allow. examples are the IDs that branches would end with.
func (p Policy) Admit(own api.RepositoryPolicy, examples []string) error {
	if err := own.Check(); err != nil {
		return err
	}
	if err := p.Within(own).Validate(); err != nil {
		return err
	}
	var all []string
	deny := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if own.Prefix != "" {
		for _, id := range examples {
			branch := own.Prefix + id
			if err := forge.CheckBranch(branch); err != nil {
				return err
			}
			if rs := p.branches(Delivery{Branch: branch}); len(rs) > 0 {
				deny("prefix %s: %s", own.Prefix, rs[0].Why)
				break
			}
		}
	}
	if own.Target != "" {
		if err := forge.CheckBranch(own.Target); err != nil {
			return err
		}
		if !p.aims(own.Target) {
			deny("target %s: merge requests may aim at %s", own.Target, strings.Join(p.Targets, ", "))
		}
	}
	if own.Draft != nil && !*own.Draft && p.Draft {
		deny("draft no: every merge request must be a draft")
	}
	if own.MaxFiles > p.MaxFiles {
		deny("max-files %d: the maximum is %d", own.MaxFiles, p.MaxFiles)
	}
	if own.MaxLines > p.MaxLines {
		deny("max-lines %d: the maximum is %d", own.MaxLines, p.MaxLines)
	}
	if len(all) > 0 {
		return api.Errorf(api.KindDenied, "the operator's policy does not allow %s", strings.Join(all, "; ")).
			WithHint("choose within it (hortus repo policy NAME shows it), or ask the operator to change [policy]")
	}
	return nil
}

// aims reports whether a request may aim at a branch.
func (p Policy) aims(target string) bool {
	return len(p.Targets) == 0 || slices.ContainsFunc(p.Targets, func(g string) bool { return doublestar.MatchUnvalidated(g, target) })
}

// requests checks the merge request of a delivery.
func (p Policy) requests(d Delivery) []Refusal {
	var all []Refusal
	if d.Target == "" {
		return nil
	}
	if !d.Stacked && !p.aims(d.Target) {
		all = append(all, Refusal{Rule: "target", Why: fmt.Sprintf("the target %s does not match %s", quote(d.Target), strings.Join(p.Targets, ", "))})
	}
	if p.Draft && !d.Draft {
		all = append(all, Refusal{Rule: "draft", Why: "merge requests must be drafts"})
	}
	return all
}
