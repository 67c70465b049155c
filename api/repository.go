package api

import (
	"strings"
	"time"
)

// RepositoryState is where a connected repository stands. [NextRepositoryState] has the table.
type RepositoryState string

const (
	// RepositoryFetching: a fetch runs. What was fetched before can be used meanwhile.
	RepositoryFetching RepositoryState = "fetching"
	// RepositoryReady: the last fetch succeeded.
	RepositoryReady RepositoryState = "ready"
	// RepositoryFailed: the last fetch failed, and Error says why. What an earlier fetch
	// brought can be used.
	RepositoryFailed RepositoryState = "failed"
	// RepositoryRemoved: it is not connected any more. Final.
	RepositoryRemoved RepositoryState = "removed"
)

// Final reports whether the state never changes again.
func (s RepositoryState) Final() bool { return s == RepositoryRemoved }

// RepositoryEvent is what changes the state of a connected repository.
type RepositoryEvent string

const (
	RepositorySync   RepositoryEvent = "sync"   // a fetch begins
	RepositoryDone   RepositoryEvent = "done"   // it succeeded
	RepositoryBroken RepositoryEvent = "broken" // it failed, or its daemon ended
	RepositoryRemove RepositoryEvent = "remove" // it is disconnected
)

// NextRepositoryState returns the state after an event; ok is false for an event that the
// state refuses. It is the whole table.
func NextRepositoryState(s RepositoryState, e RepositoryEvent) (next RepositoryState, ok bool) {
	switch s {
	case RepositoryFetching:
		next = map[RepositoryEvent]RepositoryState{
			RepositorySync: RepositoryFetching, RepositoryDone: RepositoryReady, RepositoryBroken: RepositoryFailed, RepositoryRemove: RepositoryRemoved,
		}[e]
	case RepositoryReady, RepositoryFailed:
		next = map[RepositoryEvent]RepositoryState{
			RepositorySync: RepositoryFetching, RepositoryRemove: RepositoryRemoved,
		}[e]
	case RepositoryRemoved:
		next = map[RepositoryEvent]RepositoryState{RepositoryRemove: RepositoryRemoved}[e]
	}
	return next, next != ""
}

// Repository is a connected repository: a remote that the daemon keeps a copy of, under a
// name that tasks can use. It holds no credentials.
type Repository struct {
	ID    RepositoryID    `json:"id"`
	State RepositoryState `json:"state"`
	// Name is unique among the account's repositories.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Branch is what tasks start from; empty for what the remote's HEAD names.
	Branch string `json:"branch,omitempty"`
	// Key identifies address and branch: the SHA-256 of both, in hex. It is the same for all
	// spellings of the address.
	Key string `json:"key"`
	// Commit is what Branch was at the last fetch that succeeded, Subject the first line of
	// its message.
	Commit  string `json:"commit,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Submodules counts the submodules of Commit, whose directories stay empty. LFSFiles
	// counts the files of it whose content is a Git LFS pointer: no file of LFSBytes bytes in
	// all is fetched.
	Submodules int   `json:"submodules,omitempty"`
	LFSFiles   int   `json:"lfsFiles,omitempty"`
	LFSBytes   int64 `json:"lfsBytes,omitempty"`
	// Bytes is the size of the copy on the disk, with all branches and tags.
	Bytes int64 `json:"bytes,omitempty"`
	// FetchedAt is the end of the last fetch that succeeded. Objects is what it received,
	// in FetchMS milliseconds.
	FetchedAt time.Time `json:"fetchedAt,omitzero"`
	Objects   int64     `json:"objects,omitempty"`
	FetchMS   int64     `json:"fetchMs,omitempty"`
	// Error is why the last fetch failed; nil if it succeeded.
	Error *Error `json:"error,omitempty"`
	// PrepareEveryMS is the interval of the schedule of preparations, in milliseconds; 0 if
	// there is no schedule. Preparation is nil if neither it nor a request ever was.
	PrepareEveryMS int64        `json:"prepareEveryMs,omitempty"`
	Preparation    *Preparation `json:"preparation,omitempty"`
	// Secret is the secret of the account that has the token for the repository; empty for the credentials of the daemon.
	Secret string `json:"secret,omitempty"`
	// App is the GitHub App whose private key Secret has; nil if Secret has a token.
	App *GitHubApp `json:"app,omitempty"`
	// Forge is the kind of the forge if that is known: "github", "gitlab" or "gitea".
	Forge string `json:"forge,omitempty"`
	// Verify is the gate command of the account's tasks on the repository that name none; empty to detect it.
	Verify string `json:"verify,omitempty"`
	// Isolation is the default of the account's tasks and plans on the repository that name none; empty for none.
	Isolation string `json:"isolation,omitempty"`
	// Policy is the branch policy of the repository, within the operator's; nil if it chooses nothing.
	Policy *RepositoryPolicy `json:"policy,omitempty"`
	// Hook says which events of the forge start tasks; nil for none.
	Hook *RepositoryHook `json:"hook,omitempty"`
	// Account owns it; empty is the operator's own.
	Account   string    `json:"account,omitempty"`
	Owner     OwnerID   `json:"owner,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// ValidRepositoryName reports whether s can be the name of a connected repository. A name never
// looks like an id.
func ValidRepositoryName(s string) bool {
	const first = "abcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= 63 && !RepositoryID(s).Valid() && strings.ContainsRune(first, rune(s[0])) && strings.Trim(s, first+"._-") == ""
}

// AddRepository requests the connection of a repository.
type AddRepository struct {
	// URL is as in RepoTask.
	URL string `json:"url"`
	// Branch is what tasks start from; empty for what the remote's HEAD names.
	Branch string `json:"branch,omitempty"`
	// Name is 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter
	// or digit; empty for the last part of the URL.
	Name string `json:"name,omitempty"`
	// Secret and App are as in RepositorySettings.
	Secret string     `json:"secret,omitempty"`
	App    *GitHubApp `json:"app,omitempty"`
	// PrepareEveryMS is as in RepositorySchedule.
	PrepareEveryMS int64 `json:"prepareEveryMs,omitempty"`
	// Account owns it. It is taken from the caller's key only.
	Account string `json:"-"`
}

// RepositoryLine is one line of an answer about a fetch. Type says which other field is set; that of
// progress is LineStep.
type RepositoryLine struct {
	Type       LineType    `json:"type"`
	Progress   string      `json:"progress,omitempty"`
	Repository *Repository `json:"repository,omitempty"`
	Error      *Problem    `json:"error,omitempty"`
}
