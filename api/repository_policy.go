package api

import "slices"

// RepositoryPolicy is the branch policy of a connected repository. It chooses within what the operator's policy allows, and adds to it:
// a delivery must keep both. The zero value leaves everything as the operator set it.
type RepositoryPolicy struct {
	// Prefix begins the names of delivered branches; the rest is the ID of the task, session or plan. Empty for the operator's.
	Prefix string `json:"prefix,omitempty"`
	// Target is the branch that merge requests aim at if the task names none; empty for the branch that the work started from.
	Target string `json:"target,omitempty"`
	// Draft has merge requests opened as drafts; nil for what the operator and the task say.
	Draft *bool `json:"draft,omitempty"`
	// Exists is what happens if the branch exists at another commit: BranchFails or BranchRenamed; empty for BranchFails.
	Exists string `json:"exists,omitempty"`
	// MaxFiles and MaxLines limit a delivery further; 0 for the operator's limits.
	MaxFiles int `json:"maxFiles,omitempty"`
	MaxLines int `json:"maxLines,omitempty"`
	// Protected are patterns of more branches that are never pushed to, Forbidden those of more paths that a delivery does not change. The
	// operator's exceptions are not exceptions from these.
	Protected []string `json:"protected,omitempty"`
	Forbidden []string `json:"forbidden,omitempty"`
}

// Values of RepositoryPolicy.Exists.
const (
	BranchFails   = "fail"
	BranchRenamed = "rename"
)

// MaxRepositoryPatterns is the maximum number of patterns in a list of a RepositoryPolicy.
const MaxRepositoryPatterns = 100

// Empty reports whether a policy chooses nothing.
func (p RepositoryPolicy) Empty() bool {
	return p.Prefix == "" && p.Target == "" && p.Draft == nil && p.Exists == "" && p.MaxFiles == 0 && p.MaxLines == 0 && len(p.Protected) == 0 && len(p.Forbidden) == 0
}

// Check refuses a policy that makes no sense.
func (p RepositoryPolicy) Check() error {
	switch {
	case !slices.Contains([]string{"", BranchFails, BranchRenamed}, p.Exists):
		return Errorf(KindInvalid, "%.40q is not what can happen if the branch exists", p.Exists).WithHint("use %s or %s", BranchFails, BranchRenamed)
	case p.MaxFiles < 0 || p.MaxLines < 0:
		return Errorf(KindInvalid, "a limit of the policy is below 0").WithHint("use 0 for the limit of the operator")
	case len(p.Prefix) > 100 || len(p.Target) > 1<<10:
		return Errorf(KindInvalid, "the prefix or the target is too long").WithHint("a prefix has up to 100 bytes")
	case len(p.Protected) > MaxRepositoryPatterns || len(p.Forbidden) > MaxRepositoryPatterns:
		return Errorf(KindInvalid, "the policy has too many patterns").WithHint("use up to %d in each list", MaxRepositoryPatterns)
	}
	return nil
}

// SetRepositoryPolicy requests a branch policy for a repository, in place of the one that it has. An empty Policy removes it.
type SetRepositoryPolicy struct {
	Policy RepositoryPolicy `json:"policy"`
	// DryRun checks it and shows what a delivery would be, and stores nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// RepositoryPolicyState is the branch policy of a repository with what follows from it.
type RepositoryPolicyState struct {
	// Policy is what the repository chooses; nil if it chooses nothing. Repository is the name of the repository that has it: another
	// one if the account has connected several branches of the address.
	Policy     *RepositoryPolicy `json:"policy,omitempty"`
	Repository string            `json:"repository,omitempty"`
	// Fields are the values that hold, each with where it comes from.
	Fields []PolicyField `json:"fields"`
	// Deliveries are what a task, a session and a plan would deliver.
	Deliveries []ExampleDelivery `json:"deliveries"`
	// Refused is what the policies have against the delivery of a task. After a dry run or a change, the forge's protected branches count too.
	// NotChecked is why the forge was not asked; it may hold text of the server.
	Refused    []PolicyRefusal `json:"refused,omitempty"`
	NotChecked string          `json:"notChecked,omitempty"`
	// Suggestions are choices that follow from the repository.
	Suggestions []PolicySuggestion `json:"suggestions"`
}

// The names of a PolicyField, and where its value comes from.
const (
	PolicyPrefix    = "prefix"
	PolicyTarget    = "target"
	PolicyDraft     = "draft"
	PolicyExists    = "exists"
	PolicyMaxFiles  = "max-files"
	PolicyMaxLines  = "max-lines"
	PolicyProtected = "protected"
	PolicyForbidden = "forbidden"

	FromOperator   = "operator"
	FromRepository = "repository"
	FromTask       = "task"
	FromBuiltIn    = "built-in"
)

// PolicyField is a value of a branch policy.
type PolicyField struct {
	// Name is PolicyPrefix, PolicyTarget, PolicyDraft, PolicyExists, PolicyMaxFiles, PolicyMaxLines, PolicyProtected or PolicyForbidden.
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is FromOperator, FromRepository, FromTask or FromBuiltIn. A list has the values of both if it is FromRepository.
	From string `json:"from"`
	// Why explains it to people.
	Why string `json:"why,omitempty"`
}

// ExampleDelivery is what a delivery would look like.
type ExampleDelivery struct {
	// Of is "task", "session" or "plan".
	Of string `json:"of"`
	// Branch has an example of an ID.
	Branch string `json:"branch"`
	// Target is the branch that the merge request would aim at; empty for the default branch of the forge.
	Target string `json:"target,omitempty"`
	Draft  bool   `json:"draft,omitempty"`
}

// PolicySuggestion is a value for a field of a RepositoryPolicy.
type PolicySuggestion struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Why says what it follows from. It may hold names of branches.
	Why string `json:"why"`
	// Refused is why it cannot be chosen; empty if it can.
	Refused string `json:"refused,omitempty"`
}
