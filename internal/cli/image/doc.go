// Package image is what commands do with container images: find what --image and --from-image
// name, pull it with its progress on stderr, and describe it. It must not know commands.
//
//	pull, err := image.Wanted(a, &c.Sandbox, &req)
//	img, err := image.Use(ctx, a, cl, pull, &req)
//
// Every command with [flags.Sandbox] calls both, before it sends its request.
package image
