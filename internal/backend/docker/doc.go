// Package docker is the backend that runs a sandbox as a container of a Docker engine.
//
//	b, err := docker.New(docker.Config{Dir: runDir, Layers: layers, Workspaces: workspaces, Guest: guest})
//
// The engine makes namespaces, control groups, the root and its own seccomp filter. Its first process is
// the stage of package initns, in a mode without mounts, from a read-only directory of this machine; it
// connects to a socket in that directory, gets the guest's listening socket from there, captures outgoing
// connections, drops what the guest must not have, and becomes the guest. No program, entrypoint, user,
// variable or volume of a container image is used by the engine: the image that it has was written by
// this package, of the layers of this machine's store.
//
// # Engines at another host
//
// An engine at tcp:// or ssh:// has no file of this machine. The guest is in a layer of the image, and its link is the container's standard
// input and output, attached by the engine, with the frames of package serial: see wire. A connection that breaks is made again;
// streams end with it, and commands do not.
//
// # What the container has
//
// No network but loopback, no engine socket, no host directory that it can write to. The directory with
// the socket is empty once the guest serves; the guest's listening socket has no name inside. Capabilities
// are those of the stage until the guest serves, then those of the guest, then those of each command.
// Commands of users have none. Without userns-remap of the engine, root inside is root's id of the
// machine, with few capabilities.
//
// # Workspaces
//
// A workspace is a copy in a volume of the container. The engine reads and writes it, before the container starts and
// while none of its processes runs; see package copied. The changes of a durable one are stored by Pause and Kill, and by Reclaim
// if a daemon ended before it could.
//
// # Saves
//
// A save pauses the container, and runs a program of package initns in a second one, which has the process ids of the first and compares
// the two roots. A restore gives the stage the file, which it restores over the root before the guest serves.
//
// # Lifetimes
//
// A [Backend] lives as long as its daemon. A machine is a container, which outlives both. Before its
// claim, the guest ends if its daemon does. Everything in the engine has a label with the daemon's run
// directory, and one with the sandbox: adoption and reclaim go by them, and touch nothing else. Images of
// layers stay in the engine as a cache; those whose layers are gone are removed at the next load.
//
// The package must not know the manager, nor what commands mean. It uses the stage, the ids and the system
// call policy of package jail.
package docker
