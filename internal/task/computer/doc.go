// Package computer creates the sandboxes of tasks: empty ones for programs, and ones with a
// workspace over layers for repositories. It implements the interfaces that packages agent
// and repo declare, over a manager of sandboxes and the stores of layers and workspaces.
//
//	computers := computer.New(computer.Config{Creator: access, Manager: manager, Layers: layers, Workspaces: workspaces})
//	c, err := computers.Open(ctx, req, workspace, nil)
//	...
//	defer c.Close(ctx)
//
// Every sandbox is created by the [Creator], on behalf of the context's principal: a task
// cannot exceed the ceilings of the key that created it. A [Computer] lives until Close.
//
// One that is in use can be copied ([Computers.Copy]), with the programs that run in it where memory can be forked, and
// otherwise with its files alone, for which it stands still. The copy may connect to what the sandbox may connect to when it is
// made, and use the secrets whose grants have not ended. It lives until its own Close, and its workspace until
// Discard. What a daemon that was killed leaves of both ends like everything else of its task: the sandbox is not adopted, and
// [Computers.Sweep] removes the workspace.
//
//	help, err := computers.Copy(ctx, task, c, contract.Preparation{Box: req, Services: services})
//	...
//	_, err = help.Close(ctx)
//	err = computers.Discard(ctx, help.Info().Workspace)
//
// The package must not know what a task does in its sandbox.
//
// # Reasons
//
// A changed policy stays with the work: the next sandbox over a workspace, and the gate, has
// the policy that the last one ended with, and no secret that was revoked of any. Otherwise a
// program that ends its own sandbox would get back what a person took away. Narrower is not
// computed, since two policies with ports and paths have no simple intersection. If the rows
// cannot be read, no sandbox is opened.
package computer
