// Package artifact judges programs without running them: whether an artifact or
// a plan keeps its bounds, whether it is complete, and whether two artifacts are
// the same.
//
// What it reads comes from models and from users and is hostile: every path,
// length and count is bounded here, before anything is written to a sandbox. The
// package holds no state, and must not know models, sandboxes or tasks.
package artifact
