// Package execserver speaks the protocol of "codex exec-server": JSON-RPC messages with
// which a coding agent runs commands and changes files on another machine. Here the other
// machine is a sandbox: the agent, its model and its keys stay outside.
//
//	h := execserver.NewHandler(execserver.Config{Sandbox: sandbox})
//	defer h.Close()
//	err := http.Serve(listener, h) // ws://ADDRESS + h.Path()
//
// or, on the standard streams of a process:
//
//	err := execserver.Serve(ctx, cfg, execserver.Lines(os.Stdin, os.Stdout))
//
// The package declares the sandbox that it needs ([Sandbox]). It must not know how one is
// reached, and it touches no file and starts no process of its own machine: all paths and
// commands of the peer are the sandbox's.
//
// The peer may be hostile: messages, processes, requests, buffered output and buffered input
// are bounded by the constants of limits.go and by the Config. A request for something that the sandbox cannot
// do, such as a sandbox of Codex's own around a command, is refused.
//
// A session lives as long as its connection. Serve returns when the connection has ended and
// every process that the session started was killed and its Wait has returned. All goroutines of
// the session have then ended.
package execserver
