package copied

import (
	"archive/tar"
	"context"
	"io"
	"path"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// MaxStored is the maximum size of what is written in a durable workspace without a quota or a limit, in bytes.
const MaxStored = 16 << 30

// Config has the stores.
type Config struct {
	Layers     *layer.Store
	Workspaces *workspace.Store
	// Lease leases a durable workspace that a sandbox has already; nil is Workspaces.Lease, for a new one.
	Lease func(ctx context.Context, id api.WorkspaceID) (*workspace.Lease, error)
}

// Files are the leased files of a workspace. A nil *Files is that of a sandbox without one.
type Files struct {
	store  *workspace.Store
	layers []layer.Digest
	leases []*layer.Lease
	upper  *workspace.Lease // nil if changes are not stored
}

// Attach leases what a sandbox needs at /workspace; nil if w is.
func Attach(ctx context.Context, cfg Config, w *sandbox.Workspace) (_ *Files, err error) {
	if w == nil {
		return nil, nil
	}
	if len(w.Layers) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a workspace needs at least one layer")
	}
	f := &Files{store: cfg.Workspaces, layers: w.Layers}
	defer func() {
		if err != nil {
			f.Release()
		}
	}()
	for _, digest := range w.Layers {
		_, le, err := cfg.Layers.Lease(digest)
		if err != nil {
			return nil, err
		}
		f.leases = append(f.leases, le)
		if _, err := workspace.Lower(cfg.Layers, digest); err != nil {
			return nil, err
		}
	}
	if w.Upper == "" {
		return f, nil
	}
	lease := cfg.Lease
	if lease == nil {
		lease = cfg.Workspaces.Lease
	}
	if f.upper, err = lease(ctx, w.Upper); err == nil && !slices.Equal(f.upper.Layers(), w.Layers) {
		err = api.Errorf(api.KindInvalid, "workspace %s was created over other layers", w.Upper)
	}
	if err == nil && cfg.Lease == nil {
		err = f.upper.CheckSpace(ctx, 0)
	}
	return f, err
}

// Durable is the lease of the workspace that stores the changes; nil if they are not stored.
func (f *Files) Durable() *workspace.Lease {
	if f == nil {
		return nil
	}
	return f.upper
}

// Release releases the leases. It may be called again.
func (f *Files) Release() { f.end((*workspace.Lease).Release) }

// Leave is Release for a sandbox that continues to run, and that has the workspace until then.
func (f *Files) Leave() { f.end((*workspace.Lease).Leave) }

func (f *Files) end(upper func(*workspace.Lease)) {
	if f == nil {
		return
	}
	upper(f.upper)
	for _, l := range f.leases {
		l.Release()
	}
	f.leases = nil
}

// Walk calls fn with every file that the sandbox is to see, a directory before what is in it.
func (f *Files) Walk(ctx context.Context, fn func(workspace.Entry) error) error {
	walked, err := f.store.Tree(ctx, f.layers, f.upper, fn)
	if err == nil && !walked.Complete {
		err = api.Errorf(api.KindExhausted, "the workspace is too large to be copied: %s", walked.Refused[len(walked.Refused)-1].Why)
	}
	return err
}

// Pack writes the files, below a directory, as an archive. They belong to the user and the group with this id.
func (f *Files) Pack(ctx context.Context, w io.Writer, dir string, id int) error {
	t := tar.NewWriter(w)
	err := f.Walk(ctx, func(e workspace.Entry) error {
		h := &tar.Header{Name: path.Join(dir, e.Path), Mode: 0o644, Uid: id, Gid: id, ModTime: e.ModTime, Typeflag: tar.TypeReg, Size: e.Size, Format: tar.FormatPAX}
		switch e.Mode {
		case workspace.Directory:
			h.Name, h.Typeflag, h.Mode = h.Name+"/", tar.TypeDir, 0o755
			return t.WriteHeader(h)
		case workspace.Executable:
			h.Mode = 0o755
		}
		if e.Mode == workspace.Symlink {
			target, err := e.Target()
			if err != nil {
				return err
			}
			h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, target
			return t.WriteHeader(h)
		}
		content, err := e.Open()
		if err != nil {
			return err
		}
		defer content.Close()
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(t, content)
		return err
	})
	if err == nil {
		err = t.Close()
	}
	return err
}
