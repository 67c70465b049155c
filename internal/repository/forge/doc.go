// Package forge is the contract of code hosts. A [Forge] describes a repository and opens
// merge requests for branches that were pushed already. The package also has what all
// forges need: the repository that a remote's URL names ([Locate], [Probe]), its token
// ([Account]), and the text of a merge request ([Title], [Body]).
//
// Text of a model, a repository or a program is untrusted. [Body] neutralizes it: it cannot
// mention people, close issues, run a forge's commands, load an image or end its block.
//
// The package must not know git processes, tasks, sandboxes, any forge's API, or where
// settings come from. It starts no goroutine. Only [Probe] uses the network, and only
// [Account.Secret] reads a file.
package forge
