// Package connect provides tests with the frames of the Connect protocol as bytes, and
// with the request that starts a command, for tests that send partial frames or read
// frames one by one. Its functions fail the test if a frame cannot be made or read; they
// keep no state.
//
// The package must not depend on the content of frames or on packages of the project, so
// that it does not share their bugs.
package connect
