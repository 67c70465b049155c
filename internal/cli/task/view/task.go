package view

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// RepoName is the last part of a repository's address.
func RepoName(address string) string {
	p := address
	if u, err := url.Parse(address); err == nil && u.Path != "" {
		p = u.Path
	}
	if i := strings.LastIndexByte(p, ':'); i >= 0 && !strings.Contains(p[i:], "/") {
		p = p[i+1:]
	}
	return strings.TrimSuffix(path.Base(p), ".git")
}

// StateOf is the state of a task, or the outcome of one that is done.
func StateOf(t api.Task) string {
	if t.State == api.TaskDone {
		return human.Sanitize(string(t.Outcome))
	}
	return human.Sanitize(string(t.State))
}

// RequestOf says in words what a task was asked.
func RequestOf(t api.Task) string {
	switch c := t.Create; {
	case c.Request != "":
		return c.Request
	case c.Replay != nil:
		return fmt.Sprintf("replay of task %s, attempt %d", c.Replay.Task, c.Replay.Attempt)
	}
	return "a program of the caller's"
}
