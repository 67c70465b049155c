// Package document keeps documents for tasks: requirements, constraints, decisions, patterns of code. A document
// belongs to an account, or to a repository within the account. Each write makes a new version.
//
// A repository has documents of its own too: the files NAME.md in .hortus/context of a commit. [Documents.Files] lists
// them; a task reads them from the commit that it starts from. They are never found under the name of a
// stored document, so that a repository cannot replace what a person stored.
//
// The package must not know a server, SQL, or who may call. Its texts are untrusted: it returns them as they are, and
// who shows them to a model marks them, who prints them sanitizes them. [Documents] holds no state and needs no end.
package document
