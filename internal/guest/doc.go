// Package guest is the server inside a sandbox. It runs commands and terminals,
// keeps their output, moves files and reports what the sandbox uses, for a host
// that dials it over the tether and speaks hortus.dev/api/envd.
//
// # What it must not know
//
// The package knows no backend, manager or store, and nothing of its host but
// the listening socket that it inherits. It keeps few dependencies, because it
// is the whole of a small static binary whose memory counts once per sandbox:
// no HTTP server or RPC library, only net/http's parser.
//
// # How its things live and die
//
// [Main] takes a configuration over the control socket, serves, reports, and
// waits for "go"; after that it lives until it is killed. As PID 1 of a pid
// namespace it reaps everything. A [Server] owns one goroutine per connection,
// the reaper, and a pump per live command.
//
// A command's output is moved by the goroutine that serves the Start request:
// raw poll(2) over the command's pipes and the client's socket, without a
// hand-over between goroutines, because that hand-over is most of what a stock
// server adds to a fork. When the client leaves, another goroutine goes on with
// the same pump and the output is kept in a bounded ring. Exit statuses come
// from the reaper alone. The last commands that ended are kept for a while, so
// that a client that was away still gets their end.
//
// # Privilege
//
// The guest has its own uid and a short list of capabilities, so that what it
// starts can neither signal nor trace it. It clears ambient capabilities on all
// of its threads before it starts anything; what it starts holds only what its
// identity lists. Work on files is done with the identity's own ids on a locked
// thread, so that the kernel, not this package, decides what an identity may do.
//
// Where the guest and its commands share a uid, and for commands with
// capabilities, Landlock stands between them: they are forked from a thread that
// restricted itself, and are born in its domain, which the guest is outside of.
package guest
