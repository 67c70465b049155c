// Package connect gives tests the frames of the Connect protocol as bytes, and the
// request that starts a command, for those that send half of one or read one by one.
// Its functions end the test where a frame cannot be made or read; they keep nothing.
//
// The package must not know what is in a frame, nor any package of the project's: it
// is not to make a mistake together with what it tests.
package connect
