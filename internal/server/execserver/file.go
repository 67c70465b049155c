package execserver

import (
	"bytes"
	"context"
	"io"
	"path"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// pathParams are those of every method on one path.
type pathParams struct {
	Path string `json:"path"`
	confinement
}

// where checks the parameters and returns the path.
func (in pathParams) where() (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	return pathOf(in.Path)
}

func (s *session) readFile(ctx context.Context, in pathParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	r, err := s.cfg.Sandbox.ReadFile(ctx, p)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	most := s.cfg.maxFile()
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(b) > most {
		err = api.Errorf(api.KindExhausted, "%.200s is larger than %d bytes, which is the maximum", p, most)
	}
	return struct {
		Data []byte `json:"dataBase64"`
	}{b}, err
}

type writeFileParams struct {
	pathParams
	Data []byte `json:"dataBase64"`
}

func (s *session) writeFile(ctx context.Context, in writeFileParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	if most := s.cfg.maxFile(); len(in.Data) > most {
		return nil, api.Errorf(api.KindExhausted, "the file is larger than %d bytes, which is the maximum", most)
	}
	return struct{}{}, s.cfg.Sandbox.WriteFile(ctx, p, bytes.NewReader(in.Data))
}

type makeDirParams struct {
	pathParams
	Recursive *bool `json:"recursive"`
}

func (s *session) makeDir(ctx context.Context, in makeDirParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	if in.Recursive != nil && !*in.Recursive {
		_, err := s.output(ctx, maxPath, "mkdir", "--", p)
		return struct{}{}, err
	}
	return struct{}{}, s.cfg.Sandbox.MakeDir(ctx, p)
}

// metadata is the answer to fs/getMetadata. When a file was created is not known.
type metadata struct {
	IsDirectory  bool  `json:"isDirectory"`
	IsFile       bool  `json:"isFile"`
	IsSymlink    bool  `json:"isSymlink"`
	Size         int64 `json:"size"`
	CreatedAtMS  int64 `json:"createdAtMs"`
	ModifiedAtMS int64 `json:"modifiedAtMs"`
}

func (s *session) metadata(ctx context.Context, in pathParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	e, err := s.cfg.Sandbox.Stat(ctx, p)
	if err != nil {
		return nil, err
	}
	out := metadata{
		IsDirectory: e.Type == envd.FileTypeDirectory, IsFile: e.Type == envd.FileTypeFile,
		IsSymlink: e.SymlinkTarget != nil, Size: e.Size, ModifiedAtMS: e.ModifiedTime.UnixMilli(),
	}
	if out.IsSymlink && path.IsAbs(*e.SymlinkTarget) {
		// Size and time are of what it leads to.
		if t, err := s.cfg.Sandbox.Stat(ctx, *e.SymlinkTarget); err == nil {
			out.Size, out.ModifiedAtMS = t.Size, t.ModifiedTime.UnixMilli()
		}
	}
	return out, nil
}

func (s *session) canonicalize(ctx context.Context, in pathParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	if _, err := s.cfg.Sandbox.Stat(ctx, p); err != nil {
		return nil, err
	}
	// With a mark behind it: a name may end with a line break.
	out, err := s.output(ctx, 2*maxPath, "/bin/sh", "-c", `readlink -f -- "$1" && printf /`, "sh", p)
	if err != nil {
		return nil, err
	}
	real, ok := bytes.CutSuffix(out, []byte("\n/"))
	if !ok || !path.IsAbs(string(real)) {
		return nil, api.Errorf(api.KindInternal, "readlink printed no path")
	}
	return struct {
		Path string `json:"path"`
	}{uriOf(string(real))}, nil
}

func (s *session) readDir(ctx context.Context, in pathParams) (any, error) {
	type entry struct {
		FileName    string `json:"fileName"`
		IsDirectory bool   `json:"isDirectory"`
		IsFile      bool   `json:"isFile"`
	}
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Sandbox.List(ctx, p)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(list))
	for _, e := range list {
		entries = append(entries, entry{path.Base(e.Path), e.Type == envd.FileTypeDirectory, e.Type == envd.FileTypeFile})
	}
	return struct {
		Entries []entry `json:"entries"`
	}{entries}, nil
}

type removeParams struct {
	pathParams
	Recursive *bool `json:"recursive"`
	Force     *bool `json:"force"`
}

func (s *session) remove(ctx context.Context, in removeParams) (any, error) {
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	force := in.Force == nil || *in.Force
	e, err := s.cfg.Sandbox.Stat(ctx, p)
	switch {
	case api.KindOf(err) == api.KindNotFound && force:
		return struct{}{}, nil
	case err != nil:
		return nil, err
	}
	if in.Recursive != nil && !*in.Recursive && e.Type == envd.FileTypeDirectory && e.SymlinkTarget == nil {
		_, err = s.output(ctx, maxPath, "rmdir", "--", p)
	} else {
		err = s.cfg.Sandbox.Remove(ctx, p)
	}
	if api.KindOf(err) == api.KindNotFound && force {
		err = nil
	}
	return struct{}{}, err
}

type copyParams struct {
	Source      string `json:"sourcePath"`
	Destination string `json:"destinationPath"`
	Recursive   bool   `json:"recursive"`
	confinement
}

func (s *session) copy(ctx context.Context, in copyParams) (any, error) {
	from, err := pathParams{in.Source, in.confinement}.where()
	if err != nil {
		return nil, err
	}
	to, err := pathParams{in.Destination, in.confinement}.where()
	if err != nil {
		return nil, err
	}
	e, err := s.cfg.Sandbox.Stat(ctx, from)
	if err != nil {
		return nil, err
	}
	if e.Type == envd.FileTypeDirectory && e.SymlinkTarget == nil {
		if !in.Recursive {
			return nil, api.Errorf(api.KindInvalid, "%.200s is a directory: to copy it, recursive must be true", from)
		}
		if to == from || len(to) > len(from) && to[:len(from)] == from && (from == "/" || to[len(from)] == '/') {
			return nil, api.Errorf(api.KindInvalid, "%.200s cannot be copied into itself", from)
		}
		// What it holds, so that the result has the name that was asked for.
		if err := s.cfg.Sandbox.MakeDir(ctx, to); err != nil {
			return nil, err
		}
		_, err = s.output(ctx, maxPath, "cp", "-R", "-P", "--", from+"/.", to)
		return struct{}{}, err
	}
	_, err = s.output(ctx, maxPath, "cp", "-P", "--", from, to)
	return struct{}{}, err
}
