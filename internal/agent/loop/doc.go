// Package loop is the engine that lets a model work: it asks, runs the tools that
// the answer calls, and continues with what they say, within a [Budget] and to a
// named end.
//
// The history is linear and only grows, so that a model's cache holds it; when it
// nears the model's window its old tool results are cut first, and then the
// middle is replaced by a summary. What the model writes is hostile: a call that
// cannot be read is reported as such and counted, and nothing of an answer is followed
// before its tool has checked it.
//
// # Lives
//
// A [Loop] is one history. Run continues with it until the model finishes, a budget
// is used up or the context ends, and may be called again with what is to be done
// next. It starts no goroutine that outlives the call. Everything that was said
// and done is in the transcript, also when it ended early.
//
// The package must not know sandboxes, repositories, tasks or which model answers.
//
// # Reasons
//
// Calls that only read run at the same time, by a table of names; results follow in the order
// of the calls when all have ended, so that a journal plays them again once. A call of a tool
// without effects that was interrupted is made again. The todo list is in the result of a call,
// so the journal has it.
package loop
