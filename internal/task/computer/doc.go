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
// The package must not know what a task does in its sandbox.
package computer
