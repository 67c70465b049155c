// Package prebuild prepares connected repositories ahead of the tasks that need them: on the
// schedule of each repository, and on request.
//
// One goroutine does one preparation after the other. A preparation fetches the repository
// and, if its branch has a commit that was not prepared, runs its setup. The next one on the
// schedule is an interval after its end; after a failure the interval doubles, up to a day.
// The state is in the row of the repository (api.Preparation). What runs when the daemon ends
// stays running in the row, and package connected requests it again at the next start.
//
//	s := prebuild.New(prebuild.Config{Repositories: connected, Prepare: prepare, Owner: owner})
//	defer s.Close(ctx)
//
// The package must not know tasks, setups or servers. A [Schedule] lives from New to Close,
// which waits for its goroutine.
package prebuild
