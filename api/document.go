package api

import (
	"regexp"
	"time"
)

const (
	// MaxDocument is the maximum length of a stored document, in bytes: what an agent is given whole.
	MaxDocument = 32 << 10
	// MaxDocumentTitle is the maximum length of its title, in bytes.
	MaxDocumentTitle = 200
	// MaxDocuments is the maximum number of stored documents of an account, those of its repositories included.
	MaxDocuments = 500
	// MaxDocumentVersions is the number of versions of a document that are kept, the current one included.
	MaxDocumentVersions = 20
	// MaxContextFiles is the maximum number of files of one commit that are listed as documents.
	MaxContextFiles = 100
	// MaxTaskDocuments is the maximum number of documents of a task: RepoTask.Context and RepoTask.Documents together.
	MaxTaskDocuments = 8
	// ContextDir is the directory of a repository whose files NAME.md are documents for tasks.
	ContextDir = ".hortus/context/"
)

// StoredDocument is a document that the daemon keeps for tasks. It belongs to an account, or to a repository within
// the account. Each write makes a new version.
type StoredDocument struct {
	Account string `json:"-"`
	// Repository is the address of the repository that it belongs to, without credentials; empty for a document of the account.
	Repository string `json:"repository,omitempty"`
	// Name is unique within the account, or within the repository.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Version counts from 1. A document that was removed begins at 1 again.
	Version int `json:"version"`
	// Bytes is the length of Text, which lists leave out.
	Bytes int    `json:"bytes"`
	Text  string `json:"text,omitempty"`
	// Key is the API key that wrote this version; empty for the operator.
	Key       KeyID     `json:"key,omitempty"`
	WrittenAt time.Time `json:"writtenAt"`
}

// PutDocument requests a new version of a document.
type PutDocument struct {
	// Repository is the address of a repository, as in RepoTask; empty for a document of the account.
	Repository string `json:"repository,omitempty"`
	// Title is empty for the first heading of Text ("# TITLE"), or else the name.
	Title string `json:"title,omitempty"`
	Text  string `json:"text"`
	// IfVersion is the version that is replaced, 0 for a document that must not exist. If another one is stored, nothing
	// is written (KindConflict). Nil replaces whatever is stored.
	IfVersion *int `json:"ifVersion,omitempty"`
}

// ContextFile is a document of a repository: a file in ContextDir of one of its commits.
type ContextFile struct {
	// Path names it in RepoTask.Documents.
	Path string `json:"path"`
	// Title is its first heading, or else its name. It is untrusted.
	Title  string `json:"title"`
	Bytes  int64  `json:"bytes"`
	Commit string `json:"commit"`
	// Unusable is why a task cannot have it, for example that it is a link.
	Unusable string `json:"unusable,omitempty"`
}

var (
	documentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	contextFile  = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,62}/)?\.hortus/context/[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.md$`)
)

// ValidDocumentName reports whether a stored document may have this name: 1 to 63 lower-case letters, digits, ".", "_"
// and "-", beginning with a letter or a digit.
func ValidDocumentName(name string) bool { return documentName.MatchString(name) }

// ValidContextFile reports whether a path is that of a file in ContextDir, in the directory of one of several
// repositories or without one. It is never the name of a stored document.
func ValidContextFile(path string) bool { return contextFile.MatchString(path) }
