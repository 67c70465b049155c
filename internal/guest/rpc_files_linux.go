package guest

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// maxEntries bounds one listing.
const maxEntries = 100_000

// onPath runs work as the request's identity on its path made absolute.
func (s *Server) onPath(req *http.Request, path string, work func(path string) error) error {
	id, err := s.identityOf(req)
	if err != nil {
		return err
	}
	path = s.resolve(id, path)
	return fileError(path, s.files.as(id, func() error { return work(path) }))
}

func (s *Server) stat(_ *conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	var out envd.EntryResponse
	err := s.onPath(req, in.Path, func(path string) (err error) {
		out.Entry, err = s.entry(path)
		return err
	})
	return &out, err
}

func (s *Server) listDir(_ *conn, req *http.Request, in *envd.ListDirRequest) (*envd.ListDirResponse, error) {
	if in.Depth < 1 {
		return nil, api.Errorf(api.KindInvalid, "depth must be at least 1")
	}
	var out envd.ListDirResponse
	err := s.onPath(req, in.Path, func(path string) error {
		fi, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return api.Errorf(api.KindInvalid, "path '%s' is not a directory", path)
		}
		return s.listInto(&out, path, in.Depth)
	})
	return &out, err
}

// listInto adds a directory's entries, each followed by what is below it. Links
// are not followed, so there is no cycle.
func (s *Server) listInto(out *envd.ListDirResponse, dir string, depth uint32) error {
	names, err := readNames(dir, maxEntries-len(out.Entries))
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		e, err := s.entry(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		if len(out.Entries) >= maxEntries {
			return api.Errorf(api.KindExhausted, "the listing has more than %d entries", maxEntries)
		}
		out.Entries = append(out.Entries, e)
		if depth > 1 && e.Type == envd.FileTypeDirectory && e.SymlinkTarget == nil {
			if err := s.listInto(out, path, depth-1); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// readNames lists a directory, sorted, of at most limit names.
func readNames(dir string, limit int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		some, err := f.Readdirnames(1024)
		names = append(names, some...)
		if len(names) > limit {
			return nil, api.Errorf(api.KindExhausted, "the listing has more than %d entries", maxEntries)
		}
		if err == io.EOF {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *Server) makeDir(_ *conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	id, err := s.identityOf(req)
	if err != nil {
		return nil, err
	}
	path := s.resolve(id, in.Path)
	var out envd.EntryResponse
	err = s.changeFiles(id, func() error {
		fi, err := os.Stat(path)
		switch {
		case err == nil && fi.IsDir():
			return api.Errorf(api.KindExists, "directory '%s' exists already", path)
		case err == nil:
			return api.Errorf(api.KindInvalid, "path '%s' exists and is not a directory", path)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		out.Entry, err = s.entry(path)
		return err
	}, func(o outside) (err error) {
		if err := o.makeDir(path); err != nil {
			return err
		}
		out.Entry, err = s.entry(path)
		return err
	})
	return &out, fileError(path, err)
}

func (s *Server) move(_ *conn, req *http.Request, in *envd.MoveRequest) (*envd.EntryResponse, error) {
	id, err := s.identityOf(req)
	if err != nil {
		return nil, err
	}
	from, to := s.resolve(id, in.Source), s.resolve(id, in.Destination)
	var out envd.EntryResponse
	failed := to // the path that an error is about
	err = s.changeFiles(id, func() error {
		if _, err := os.Lstat(from); err != nil {
			failed = from
			return err
		}
		failed = filepath.Dir(to)
		if err := os.MkdirAll(failed, 0o755); err != nil {
			return err
		}
		failed = to
		if err := os.Rename(from, to); err != nil {
			return err
		}
		out.Entry, err = s.entry(to)
		return err
	}, func(o outside) (err error) {
		failed = to
		if err := o.move(from, to); err != nil {
			return err
		}
		out.Entry, err = s.entry(to)
		return err
	})
	return &out, fileError(failed, err)
}

func (s *Server) remove(_ *conn, req *http.Request, in *envd.PathRequest) (*envd.Empty, error) {
	id, err := s.identityOf(req)
	if err != nil {
		return nil, err
	}
	path := s.resolve(id, in.Path)
	err = s.changeFiles(id, func() error { return os.RemoveAll(path) }, func(o outside) error { return o.remove(path) })
	return &envd.Empty{}, fileError(path, err)
}
