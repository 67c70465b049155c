// Package template resolves what sandboxes start from: the names of templates to layers,
// and the programs and libraries that a sandbox then has.
//
//	templates := template.New(host)
//	layers, err := templates.Layers(ctx, "host")
//	tools, err := template.Tools{Templates: templates, Backends: manager}.Of(ctx, req)
//
// [Inventory] asks the programs of the host template for their versions, in a sandbox that
// lives for that alone. [Templates.Named] tells the garbage collector which layers are in
// use.
//
// Templates that were saved from sandboxes are snapshots, which the package must not know.
// It holds no goroutine and nothing to close.
package template
