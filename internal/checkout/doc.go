// Package checkout is what the commands do with a person's own git checkout: find
// it, ask it who the person is and where its remotes are, and, for `hortus task
// apply` alone, bring a task's result into it.
//
// It runs the person's git, with the person's configuration, in the person's
// directory, as the person would: nothing here is for repositories or commands of
// anybody else. Finding a checkout runs no program that its own configuration names
// (hooks, monitors, filters), since it may have been unpacked from anywhere. The patch and the bundle that it brings in come from a sandbox and
// are hostile: git refuses paths that leave the working tree, that lead through a
// link, or into .git, and the rest is asked for so that nothing is half done.
//
// It must not know tasks, the daemon or the command line. Each call is one or a few
// git processes that end with it.
package checkout
