package template

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/storage/image"
)

// Toolchain names the programs of a request's sandbox by their files: a program that is replaced has another name here.
// The fingerprint of the host template would change with every other file of this machine too. Of a container image and
// of a saved sandbox the layers and the ID are the name.
func (l Tools) Toolchain(ctx context.Context, req api.CreateSandbox) (string, error) {
	all, err := l.Of(ctx, req)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "template %q\n", cmp.Or(req.Template, image.HostName))
	layers, saved, err := l.layers(ctx, req)
	if err != nil || len(layers) > 0 {
		return fmt.Sprintf("image %q %s\n", layers, saved), err
	}
	for _, t := range all {
		if t.Present {
			program(&b, t.Path)
		}
	}
	// Inside they lie at /opt, whatever their version.
	for _, t := range l.Templates.host.Toolchains() {
		if t.Shown {
			program(&b, filepath.Join(t.Path, "bin"))
		}
	}
	return b.String(), nil
}

// Contents names all that a request's sandbox has beside its workspace. It changes with any file of the host template that its fingerprint
// tells, and with the programs of Toolchain.
func (l Tools) Contents(ctx context.Context, req api.CreateSandbox) (string, error) {
	programs, err := l.Toolchain(ctx, req)
	if err != nil {
		return "", err
	}
	layers, saved, err := l.layers(ctx, req)
	if err == nil && len(layers) == 0 {
		layers, err = l.Templates.Layers(ctx, cmp.Or(req.Template, image.HostName))
	}
	return fmt.Sprintf("%q %s\n%s", layers, saved, programs), err
}

// program writes what identifies a program. One that is not at this path on the host has its path only.
func program(b *strings.Builder, path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		fmt.Fprintf(b, "%q\n", path)
		return
	}
	if fi, err := os.Stat(real); err == nil {
		fmt.Fprintf(b, "%q %q %d %d\n", path, real, fi.Size(), fi.ModTime().UnixNano())
	}
}
