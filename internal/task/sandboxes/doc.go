// Package sandboxes creates the sandboxes of tasks: empty ones for programs, and ones with a
// workspace over layers for repositories. It implements the interfaces that packages agent, setup
// and repo declare, over a manager of sandboxes and the stores of layers and workspaces.
//
//	p := sandboxes.New(sandboxes.Config{Creator: quota, Guests: m.Guests, Lifecycle: m.Sandboxes, Layers: layers, Workspaces: workspaces})
//	sandbox, err := p.Open(ctx, req, workspace, nil)
//	...
//	defer sandbox.Close(ctx)
//
// Every sandbox is created by the [Creator], on behalf of the context's principal: a task
// cannot exceed the ceilings of the key that created it. A [Sandbox] lives until Close.
//
// One that is in use can be copied ([Provider.Copy]), with the programs that run in it where memory can be forked, and
// otherwise with its files alone, for which it is paused. The copy may connect to what the sandbox may connect to when it is
// made, and use the secrets whose grants have not ended. It lives until its own Close, and its workspace until
// Discard. What a daemon that was killed leaves of both ends like everything else of its task: the sandbox is not adopted, and
// [Provider.Sweep] removes the workspace.
//
//	help, err := p.Copy(ctx, task, sandbox, repo.Preparation{Sandbox: req, Services: services})
//	...
//	_, err = help.Close(ctx)
//	err = p.Discard(ctx, help.Info().Workspace)
//
// Between the turns of a session its sandbox waits in [Sessions], which pause it and end it when nobody uses it. Their goroutine ends
// with Close.
//
// The package must not know what a task does in its sandbox.
package sandboxes
