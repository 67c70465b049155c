// Package dockertest starts a Docker engine for tests: the machine's own dockerd, with a data directory, a
// socket and control groups of its own. No network is set up.
//
//	host := dockertest.Start(t).Host // skips the test on a machine without dockerd
package dockertest
