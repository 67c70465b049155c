// Package guest is the server inside a sandbox. It runs commands and terminals,
// keeps their output, moves files and reports what the sandbox uses, for a host
// that dials it over the tether and speaks hortus.dev/api/envd.
//
// # What it must not know
//
// The package knows no backend, manager or store, and nothing of its host but
// the sockets that it inherits. It keeps few dependencies, because it
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
// # A kernel of its own
//
// A guest that was started with [birth.ArgStdio] has no listener: [Server.Attend]
// takes its streams from the control socket, for as long as that is open. Told to be
// quiet it ends every connection, waits until each one's goroutine is gone and its
// descriptor closed, and only then says so: its kernel can be saved with none open.
// Commands go on; their pumps move to the background, and what they print stays in
// the ring for who connects with an offset later. A command's lifetime stands still
// from quiet until the guest is on again, here or, restored, somewhere else: time on
// a disk is not its own, although the restored clock jumps over it.
//
// There is no other stage there, no Landlock and no enforced RLIMIT_NPROC. The guest
// makes directories and files itself, watches the machine's memory as a whole, and
// keeps commands in a cell (see cell_linux.go): born in a control group with a
// bound, in a changed root that rules out user namespaces, and, where they may change
// their uid, kept from the guest's.
//
// # Privilege
//
// The guest has its own uid and a short list of capabilities, so that what it
// starts can neither signal nor trace it. It clears ambient capabilities on all
// of its threads before it starts anything; what it starts holds only what its
// identity lists. Work on files is done with the identity's own ids on a locked
// thread, so that the kernel, not this package, decides what an identity may do. For
// clients of E2B's, files outside what the user may change are changed with the rights of
// the sandbox's root, see outside_linux.go.
//
// Where the guest and its commands share a uid, and for commands with
// capabilities, Landlock stands between them: they are forked from a thread that
// restricted itself, and are born in its domain, which the guest is outside of.
package guest
