// Package template resolves what sandboxes start from: the names of templates to layers,
// and the programs and libraries that a sandbox then has.
//
//	templates := template.New(host, images)
//	layers, err := templates.Layers(ctx, "host") // or the name of a container image
//	tools, err := template.Tools{Templates: templates, Report: planner.Report}.Of(ctx, req)
//
// [Inventory] reads the versions of the host template's programs, in a sandbox for that purpose
// only. [Templates.Named] returns the layers in use, for the garbage collector.
//
// Templates that were saved from sandboxes are snapshots, which the package must not know.
// It holds no goroutine and nothing to close.
package template
