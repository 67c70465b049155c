// Package forge is the contract of code hosts: a [Forge] tells what a repository
// is there and opens the merge request of a branch that was pushed already. It
// also holds what all of them need: the place that a remote's URL names
// ([Locate], [Probe]), the token that belongs to it ([Account]), and the words of
// a merge request ([Title], [Body]).
//
// Nothing that a model, a repository or a program wrote reaches a forge as it is.
// [Body] shows it as text: it cannot call people, close issues, run a forge's
// commands, load an image or leave the block that it stands in.
//
// The package must not know git processes, tasks, sandboxes, any forge's API, or
// where settings come from. It starts no goroutine; [Probe] alone speaks over a
// network, [Account.Secret] alone reads a file.
package forge
