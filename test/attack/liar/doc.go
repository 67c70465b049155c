// Package liar is the hostile guest of the attack suite: it runs as process 1 of a sandbox
// in place of the honest guest, and answers the host with lies. [Main] is one in a
// container, [Hostile] one in a sandbox with its own kernel. A lie has a name, which the
// host passes in the sandbox's variables.
//
// The package must not depend on what the host does with a lie. A liar lives as long as its
// sandbox. A sandbox with its own kernel starts with an empty file system, so its program,
// cmd/liar, is linked without the C library.
package liar
