// Package githttp decides what a sandbox may do with one git repository over git's smart HTTP
// protocol, while a request passes through the host.
//
//	out, err := githttp.Check(rule, r) // r is the request of the client
//	var refused *githttp.Refusal
//	if errors.As(err, &refused) {
//		status, contentType, body := refused.Answer()
//		...
//	}
//	resp, err := githttp.Send(transport, out) // err may be a *Refusal too: the body is checked while it is read
//
// Four requests are possible: the list of refs for a fetch and for a push, a fetch, and a push.
// Everything else of a server, such as its API, its web pages, Git LFS and the dumb protocol, is
// refused.
//
// A fetch is read line by line; only the commands and lines that this package knows are passed.
//
// Of a push, the list of commands is read before anything is sent. Each must be allowed: its ref
// by a pattern of the rule, and its kind by Force and Delete. The pack is then parsed while it is
// sent, and its last bytes are held back until it was found to be whole and to be what the
// commands say. A branch may be updated without Force if the pack has the commits from the new
// value back to the old one. What a server has without its being in the pack is not known here:
// an update that depends on it is refused.
//
// The package relies on the server for three things: it refuses a command whose old value is not
// the value of its ref, it refuses a pack that is not complete, and it verifies the contents of
// objects. Git's receive-pack does all three.
//
// A checked body is bound to its request: it holds a window of the body (at most 2 MiB), an
// inflater, and, if the rule has no Force and a ref is updated, the ids of at most 250,000
// commits and 16 MiB of their contents. It has no goroutine. What is kept goes when the request
// does.
//
// The client is hostile, also the git program in the sandbox. The package must not know
// connections, secrets or sandboxes: it gets a parsed request and returns one.
//
// # Reasons
//
// A push is decided while it passes, because the refs are in its body. To let only the host
// push would make git push useless to an agent; to store the pack and have git read it would
// parse hostile bytes with a large surface, at the size of each push. The pack's checksum is
// held back, without which a server cannot use it. What is not known, such as push options and
// signed pushes, is refused.
package githttp
