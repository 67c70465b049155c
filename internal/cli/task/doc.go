// Package task is the commands that have models work: programs (run, execute, plan, code,
// debug), tasks on repositories (task start, diff, apply, deliver, reply) and what was done
// (task ls, show, logs, stats).
//
// A command is a struct of flags with a Run method. One that starts a task follows its
// events to the end; Ctrl-C cancels the task, twice ends the process:
//
//	return start(ctx, a, api.CreateTask{Request: "..."}, nil, out, detach)
//
// Package view shows tasks. This package must not know the commands about sandboxes, and
// only task apply writes into a checkout.
package task
