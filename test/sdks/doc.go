// Package sdks tests with the SDKs of Anthropic and OpenAI: that our scripted server speaks the
// vendors' wires, that our clients send what the SDKs send and read what they read, and that the
// SDKs take the answers of the secret broker as they are meant.
//
// It is a Go module of its own, so that neither a build of Hortus nor "go test ./..." compiles
// the SDKs:
//
//	go -C test/sdks test ./...
//
// The package has tests only.
package sdks
