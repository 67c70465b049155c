package api

import "strings"

// RepositorySettings are the settings of a connected repository. A field that is nil stays as it is.
type RepositorySettings struct {
	// Verify is the gate command of tasks that name none; "" to detect it for each commit.
	Verify *string `json:"verify,omitempty"`
	// Isolation is a backend, or "auto", for tasks and plans that name none; "" for the default of the API key or of the daemon.
	Isolation *string `json:"isolation,omitempty"`
	// Secret is the secret of the account with the token for the repository; "" for the credentials of the daemon.
	Secret *string `json:"secret,omitempty"`
	// App says that Secret has the private key of this GitHub App and no token. It goes with Secret.
	App *GitHubApp `json:"app,omitempty"`
}

// GitHubApp is an app at GitHub or GitHub Enterprise Server. Its private key, in PEM without line breaks, is the value of a secret.
type GitHubApp struct {
	ID int64 `json:"id"`
	// Installation is that of the repository's owner; 0 to find it by the repository.
	Installation int64 `json:"installation,omitempty"`
}

// check refuses an app that makes no sense with a secret.
func (a *GitHubApp) check(secret string) error {
	switch {
	case a == nil:
		return nil
	case a.ID <= 0 || a.Installation < 0:
		return Errorf(KindInvalid, "a GitHub App needs its ID, a number above 0").WithHint("the App ID is in the settings of the app at GitHub")
	case secret == "":
		return Errorf(KindInvalid, "a GitHub App needs the secret with its private key").WithHint("set one, for the daemon alone")
	}
	return nil
}

// MaxVerify is the maximum size of a gate command, in bytes.
const MaxVerify = 8 << 10

// Check refuses settings that make no sense.
func (s RepositorySettings) Check() error {
	if v := s.Verify; v != nil && (len(*v) > MaxVerify || strings.ContainsRune(*v, 0) || *v != "" && strings.TrimSpace(*v) == "") {
		return Errorf(KindInvalid, "the gate command is too long, blank or contains a NUL byte").WithHint("use up to %d bytes", MaxVerify)
	}
	if n := s.Secret; n != nil && *n != "" && !ValidSecretName(*n) {
		return Errorf(KindInvalid, "%.80q is not the name of a secret", *n).WithHint("list them: hortus secret ls")
	}
	secret := ""
	if s.Secret != nil {
		secret = *s.Secret
	}
	return s.App.check(secret)
}

// CheckRepository requests a test of what a token, or a GitHub App, may do with a repository.
type CheckRepository struct {
	// URL is as in RepoTask.
	URL string `json:"url"`
	// Secret is the secret of the account with the token; empty for the credentials of the daemon.
	Secret string `json:"secret,omitempty"`
	// App is as in RepositorySettings.
	App *GitHubApp `json:"app,omitempty"`
}

// RepositoryAccess is what may be done with a repository.
type RepositoryAccess struct {
	// Forge is the kind of the forge: "github", "gitlab", "gitea", or empty for a git server without merge requests.
	Forge string `json:"forge,omitempty"`
	// Page is the page of the repository at its forge, DefaultBranch and Protected what the forge says of its branches.
	Page          string   `json:"page,omitempty"`
	DefaultBranch string   `json:"defaultBranch,omitempty"`
	Protected     []string `json:"protected,omitempty"`
	// Rights are those that Hortus uses, in the order in which it needs them.
	Rights []RepositoryRight `json:"rights"`
}

// The rights of a RepositoryAccess.
const (
	RightRead         = "read"
	RightPush         = "push"
	RightMergeRequest = "merge request"
	// RightIssues and RightChecks are to answer issues, and to read what checks report. They are known for GitHub Apps.
	RightIssues = "issues"
	RightChecks = "checks"
)

// RepositoryRight is a right that was tested.
type RepositoryRight struct {
	// Right is RightRead, RightPush, RightMergeRequest, RightIssues or RightChecks.
	Right string `json:"right"`
	OK    bool   `json:"ok"`
	// Reason is why it is missing or could not be tested, Fix what to do. Both may hold text of the server.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// RepositoryDetected is what was found in the commit of a connected repository. Its texts come from the repository.
type RepositoryDetected struct {
	Commit string `json:"commit"`
	// Gates are the commands that its tests could be run with, the one that is chosen first. NoGate is why none is chosen.
	Gates  []GateCandidate `json:"gates"`
	NoGate string          `json:"noGate,omitempty"`
	// Setup are the commands that install the dependencies, and SetupFrom the files that they were found in.
	Setup     []string `json:"setup"`
	SetupFrom []string `json:"setupFrom"`
	// Policy is what may be delivered, as the operator set it.
	Policy DeliveryPolicy `json:"policy"`
}

// GateCandidate is a command that runs tests, or seems to.
type GateCandidate struct {
	Command string `json:"command"`
	// From is where it was found, Why why it stands where it does.
	From string `json:"from"`
	Why  string `json:"why"`
	// Chosen is true for the one that tasks use if none is set.
	Chosen bool `json:"chosen,omitempty"`
}

// DeliveryPolicy is the branch policy of the operator.
type DeliveryPolicy struct {
	// Branch is the pattern of the branches that are pushed; Protected are never pushed to.
	Branch    string   `json:"branch"`
	Protected []string `json:"protected"`
	MaxFiles  int      `json:"maxFiles"`
	MaxLines  int      `json:"maxLines"`
	// Forbidden paths are not changed by a delivery, except those of Allow.
	Forbidden []string `json:"forbidden"`
	Allow     []string `json:"allow,omitempty"`
	// Targets are patterns of the branches that merge requests may aim at; empty for all. Draft is true if they must be drafts.
	Targets []string `json:"targets,omitempty"`
	Draft   bool     `json:"draft,omitempty"`
}
