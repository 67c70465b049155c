// Package leased leases the layers of a sandbox, for backends that hand them to another program: a container engine, or a
// virtual machine.
//
//	l, err := leased.Lease(store, spec.Layers)
//	defer l.Release()                    // when the sandbox has ended
//	for _, t := range l.Trees { ... }    // the lowest one first
//	env := l.Env(spec.Env)
//
// [Layers] live as long as their sandbox: no layer is removed from the store meanwhile. The package must not know how a
// backend shows the layers. Backends that mount them themselves share trees among sandboxes, and use package launch.
package leased
