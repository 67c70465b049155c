// Package repair repairs a repository without a language model: it generates small edits,
// tries them, and keeps the first one with which the gate passes.
//
// An [Agent] answers requests that have tools, as a model does. It runs the gate, reads the
// sources that the failure names, records which lines the failing tests execute, lists edits
// (package edit, and package diagnosis for errors that name their cause), and tries them in
// copies of the tree by one script in the shell tool. The edit that passes is then made in
// the workspace. The other request that it accepts is "rename X to Y".
//
//	agent := repair.New()
//	response, err := agent.Generate(ctx, model.Request{Messages: history, Tools: tools}, nil)
//
// # Copies
//
// There is a copy for each processor, at most four, and an edit is undone after its trial. A
// directory node_modules, .venv or venv with [fewInstalled] files or more, in which no edit is
// made, is not copied where the sandbox has a read-only mount of its workspace. The copy has its
// own directory instead, with its own files, links, .bin and scopes, and a link into the mount
// for each other directory. So
//
//   - a trial can change no linked file: writes fail with EROFS. It can add, remove and replace
//     entries of the copy's own directory. A gate that names the workspace by its absolute path
//     in a file of its own runs there, as it does before and after the trials.
//   - links to packages of the same repository lead into the copy, with the edit. Node resolves
//     the real path of a module, so an installed package that imports a package of the
//     repository gets it from the mount, without the edit.
//   - caches (.cache, .vite*) begin empty. Python's and other tools' caches in packages cannot
//     be written.
//   - what a trial leaves beside its edit, in the sources or in a small installed directory, is
//     there for the next trial in the same copy.
//
// Symbolic links alone would let a trial write to the workspace; hard links too, and on an
// overlay each copies its file. Elsewhere, as on a backend without workspaces, one copy of
// everything is made and used by all trials of a call. Its time is not that of the trials, but
// counts for the repair.
//
// # Limits
//
// It keeps nothing between two answers: each answer replays the history and asks for the
// first thing that has no answer yet. The effort for one repair is bounded in calls, seconds
// and candidates. Tool results are not trusted: they are read as text and bounded. The
// package must not know roles, sandboxes or tasks; it runs programs only through the tools
// of the request.
//
// # Reasons
//
// Edits are tried and not understood: without a language model, the tests are the only meaning.
// Kinds of edits that repaired nothing in 1,100 mutants and the mistakes of edit_test.go were
// removed; a new kind needs a mutant or a mistake that only it repairs. A passing gate is no
// proof where tests are weak, and the summary says so.
package repair
