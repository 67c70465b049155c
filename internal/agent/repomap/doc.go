// Package repomap makes a short text of a repository: its source files with what they declare at the
// top level, the files that other files use most first, within a number of bytes.
//
//	lines := ... // path, line for each match of repomap.Candidates in the sandbox
//	text := repomap.Text(lines, 12_000)
//
// It reads single lines, which a search in the sandbox found, and no files. Lines and names are untrusted:
// what does not look like a declaration is ignored, everything that is shown is bounded, and the same lines
// give the same text in whatever order they come.
//
// The package keeps nothing and starts nothing. It must not know sandboxes, tools or models.
package repomap
