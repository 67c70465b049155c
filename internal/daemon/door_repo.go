package daemon

import (
	"context"
	"io"

	"hortus.dev/api"
)

// WIRING: this file is the only place between the door and the engine's results of
// tasks on repositories. Once *task.Engine has the four methods of
// doorhttp.RepoTasks, repoResults is gone and doorTasks embeds the engine's.

// repoResults refuses: this build has no engine for repositories.
type repoResults struct{}

func (repoResults) refuse() (io.ReadCloser, error) {
	return nil, api.Errorf(api.KindUnsupported, "this build keeps no results of tasks on repositories")
}

// Diff implements the door's RepoTasks.
func (r repoResults) Diff(context.Context, api.TaskID, int) (io.ReadCloser, error) {
	return r.refuse()
}

// Bundle implements the door's RepoTasks.
func (r repoResults) Bundle(context.Context, api.TaskID) (io.ReadCloser, error) { return r.refuse() }

// Transcript implements the door's RepoTasks.
func (r repoResults) Transcript(context.Context, api.TaskID) (io.ReadCloser, error) {
	return r.refuse()
}

// GateOutput implements the door's RepoTasks.
func (r repoResults) GateOutput(context.Context, api.TaskID, int, string) (io.ReadCloser, error) {
	return r.refuse()
}
