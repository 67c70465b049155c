package durable

import (
	"archive/tar"
	"context"
	"io"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

// Export writes all files of a workspace that nobody uses, the layers below included, as a tar
// archive. With git the archive has directories with the name .git too: a configuration in
// such a directory can run programs on the machine of anyone who uses git in it.
func (s *Service) Export(ctx context.Context, id api.WorkspaceID, git bool, to io.Writer) (api.WorkspaceExport, error) {
	w, done, err := s.lastVersion(ctx, id)
	if err != nil {
		return api.WorkspaceExport{}, err
	}
	defer done()
	var out api.WorkspaceExport
	archive := tar.NewWriter(to)
	walked, err := s.cfg.Store.Walk(ctx, id, workspace.WalkOptions{Git: git}, func(e workspace.Entry) error {
		out.Files++
		out.Bytes += e.Size
		return add(archive, e)
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return out, s.InUse(ctx, w, err)
	}
	out.Complete, out.RefusedCount = walked.Complete, len(walked.Refused)
	out.Refused = walked.Refused[:min(len(walked.Refused), api.MaxExportRefused)]
	return out, nil
}

func add(archive *tar.Writer, e workspace.Entry) error {
	h := &tar.Header{Name: e.Path, Mode: 0o644, ModTime: e.ModTime.Truncate(time.Second), Typeflag: tar.TypeReg, Size: e.Size, Format: tar.FormatPAX}
	switch e.Mode {
	case workspace.Directory:
		h.Name, h.Mode, h.Typeflag, h.Size = e.Path+"/", 0o755, tar.TypeDir, 0
		return archive.WriteHeader(h)
	case workspace.Executable:
		h.Mode = 0o755
	}
	f, err := e.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	if e.Mode == workspace.Symlink {
		target, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode, h.Size = tar.TypeSymlink, string(target), 0o777, 0
		return archive.WriteHeader(h)
	}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(archive, f)
	if err == nil && n != e.Size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
