package files

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/files/elevated"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

// MaxEntries is the maximum number of entries of one listing.
const MaxEntries = 100_000

// Service serves the requests about files.
type Service struct {
	ids    *identity.Set
	access *credential.Switcher
}

// New returns a service.
func New(ids *identity.Set, access *credential.Switcher) *Service {
	return &Service{ids: ids, access: access}
}

// Handlers returns the handlers by their paths.
func (s *Service) Handlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		envd.FSStat:      rpc.Unary(s.stat),
		envd.FSListDir:   rpc.Unary(s.listDir),
		envd.FSMakeDir:   rpc.Unary(s.makeDir),
		envd.FSMove:      rpc.Unary(s.move),
		envd.FSRemove:    rpc.Unary(s.remove),
		envd.PathFiles:   s.serveFiles,
		envd.PathCompose: s.compose,
	}
}

// onPath runs work with the identity of the request, on the absolute path.
func (s *Service) onPath(req *http.Request, path string, work func(path string) error) error {
	id, err := s.ids.Of(req)
	if err != nil {
		return err
	}
	path = id.Resolve(path)
	return Error(path, s.access.As(&id.Identity, func() error { return work(path) }))
}

// changeFiles runs work with the rights of an identity. If that is denied, the client is
// E2B's and the sandbox has a root, it runs asRoot with root's rights.
func (s *Service) changeFiles(id *identity.Identity, work func() error, asRoot func(elevated.Files) error) error {
	root := s.ids.Get("root")
	may := root != nil && s.access.Enabled() && id.UID != root.UID && id.OfE2B()
	rounds := 3 // one to make a file's parent, one to move the file there, one spare
	for {
		err := s.access.As(&id.Identity, work)
		if !may || !errors.Is(err, fs.ErrPermission) {
			return err
		}
		err = s.access.As(&root.Identity, func() error { return asRoot(elevated.Files{User: &id.Identity}) })
		if err != elevated.ErrAgain {
			return err
		}
		if rounds--; rounds == 0 {
			return unix.EACCES // another process removes the new directories
		}
	}
}

func (s *Service) stat(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	var out envd.EntryResponse
	err := s.onPath(req, in.Path, func(path string) (err error) {
		out.Entry, err = s.Entry(path)
		return err
	})
	return &out, err
}

func (s *Service) listDir(_ *rpc.Conn, req *http.Request, in *envd.ListDirRequest) (*envd.ListDirResponse, error) {
	var out envd.ListDirResponse
	err := s.onPath(req, in.Path, func(path string) error {
		fi, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return api.Errorf(api.KindInvalid, "path '%s' is not a directory", path)
		}
		return s.listInto(&out, path, max(in.Depth, 1))
	})
	return &out, err
}

// listInto adds the entries of a directory, each followed by those below it. It does not
// follow links, so there are no cycles.
func (s *Service) listInto(out *envd.ListDirResponse, dir string, depth uint32) error {
	names, err := Names(dir, MaxEntries-len(out.Entries))
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		e, err := s.Entry(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was read
		}
		if err != nil {
			return err
		}
		if len(out.Entries) >= MaxEntries {
			return api.Errorf(api.KindExhausted, "the listing has more than %d entries", MaxEntries)
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

// Names returns the sorted names in a directory, or an error if there are more than limit.
func Names(dir string, limit int) ([]string, error) {
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
			return nil, api.Errorf(api.KindExhausted, "the listing has more than %d entries", MaxEntries)
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

func (s *Service) makeDir(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	id, err := s.ids.Of(req)
	if err != nil {
		return nil, err
	}
	path := id.Resolve(in.Path)
	var out envd.EntryResponse
	err = s.changeFiles(id, func() error {
		fi, err := os.Stat(path)
		switch {
		case err == nil && fi.IsDir():
			return api.Errorf(api.KindExists, "directory '%s' already exists", path)
		case err == nil:
			return api.Errorf(api.KindInvalid, "path '%s' exists and is not a directory", path)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		out.Entry, err = s.Entry(path)
		return err
	}, func(o elevated.Files) (err error) {
		if err := o.MakeDir(path); err != nil {
			return err
		}
		out.Entry, err = s.Entry(path)
		return err
	})
	return &out, Error(path, err)
}

func (s *Service) move(_ *rpc.Conn, req *http.Request, in *envd.MoveRequest) (*envd.EntryResponse, error) {
	id, err := s.ids.Of(req)
	if err != nil {
		return nil, err
	}
	from, to := id.Resolve(in.Source), id.Resolve(in.Destination)
	var out envd.EntryResponse
	failed := to // the path of an error
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
		out.Entry, err = s.Entry(to)
		return err
	}, func(o elevated.Files) (err error) {
		if failed, err = o.Move(from, to); err != nil {
			return err
		}
		out.Entry, err = s.Entry(to)
		return err
	})
	return &out, Error(failed, err)
}

func (s *Service) remove(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.Empty, error) {
	id, err := s.ids.Of(req)
	if err != nil {
		return nil, err
	}
	path := id.Resolve(in.Path)
	err = s.changeFiles(id, func() error { return os.RemoveAll(path) }, func(o elevated.Files) error { return o.Remove(path) })
	return &envd.Empty{}, Error(path, err)
}
