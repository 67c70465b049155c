// Package forker is a small process that forks the first processes of sandboxes for a
// daemon, and the daemon's end of it.
//
// A process that forks without sharing its memory, as it must for a user namespace
// whose ids it writes, has the kernel copy its page tables and take its right to write
// from every page; each page that it writes to afterwards costs a fault. Many starts at
// once are slower by a third for that. This process has little memory, and nothing to do
// meanwhile.
//
// # What it does
//
// It takes an [Order] a packet over the socket that it was started with, forks on a
// thread of its own that ends afterwards, and answers on a socket that came with the
// order, with a descriptor of the new process. For the clone the thread takes the user id
// to which the kernel is to charge the new user namespace: see [Order]. The process's own
// soft limits bound what is charged. As an ordinary user it runs in a user namespace of
// its own, whose bounds hold for all namespaces that it creates: see [Config].
//
// It collects what it forked when that ends, and says on the socket of its order how.
//
// # Life
//
// The daemon starts it, ends it, and starts another where it has ended. The end of the
// socket, which is the daemon's end too, ends it; what it forked lives on, and is
// another process's to collect then: how it ended is not known to the daemon unless the
// kernel tells.
//
// # What it must not know
//
// Sandboxes, and who asks: it has the daemon's rights, no way to it but the socket that
// was inherited, and no code but this package's, the groups' and the standard library's
// at work. No guest can name it: it is in no namespace of theirs.
package forker
