// Package launch makes the first process of a sandbox: it forks the stage of package
// initns into new namespaces and control groups, and tells the stage and the guest what
// to become.
//
// It must not know what a machine does after that, nor who asks for it: package jail
// starts sandboxes with it, and package probe tries whether one can be started.
//
// A [Launcher] holds the guest's executable and the forker process until Close, and the layers that
// it resolved until nothing uses them. What Spawn returns belongs to the caller.
//
//	trees, err := l.Resolve(spec.Layers)
//	c, err := l.Spawn(group, idRange)
//	err = l.Instruct(c, launch.Request{Spec: spec, Trees: trees, Dir: dir, Range: idRange})
//	l.Release(trees) // after the end of the sandbox
package launch
