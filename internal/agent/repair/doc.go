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
// It keeps nothing between two answers: each answer replays the history and asks for the
// first thing that has no answer yet. The effort for one repair is bounded in calls, seconds
// and candidates. Tool results are not trusted: they are read as text and bounded. The
// package must not know roles, sandboxes or tasks; it runs programs only through the tools
// of the request.
package repair
