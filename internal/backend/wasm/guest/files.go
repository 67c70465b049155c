package guest

import (
	"compress/gzip"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/wasm/memfs"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

// maxEntries is the maximum number of entries of one listing, maxParts that of files of an upload.
const (
	maxEntries = 100_000
	maxParts   = 10_000
)

// Files serves the requests about files from a tree. It keeps no state between requests.
type Files struct {
	ids  *identity.Set
	tree *memfs.Tree
}

// Handlers returns the handlers by their paths. Changes of files cannot be watched.
func (s *Files) Handlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		envd.FSStat:    rpc.Unary(s.stat),
		envd.FSListDir: rpc.Unary(s.listDir),
		envd.FSMakeDir: rpc.Unary(s.makeDir),
		envd.FSMove:    rpc.Unary(s.move),
		envd.FSRemove:  rpc.Unary(s.remove),
		envd.PathFiles: s.serveFiles,
	}
}

// failure converts an error of the tree.
func failure(p string, errno experimental.Errno) error {
	switch errno {
	case 0:
		return nil
	case experimental.ENOENT:
		return api.Errorf(api.KindNotFound, "path '%s' does not exist", p)
	case experimental.EEXIST:
		return api.Errorf(api.KindExists, "path '%s' already exists", p)
	case experimental.EIO:
		return api.Errorf(api.KindExhausted, "path '%s': %w", p, errNoSpace)
	}
	return api.Errorf(api.KindInvalid, "path '%s': %w", p, errno)
}

var errNoSpace = errors.New("no space left: the disk or the memory limit of the sandbox is reached")

// entry describes an entry. A link has the type and the mode of its target.
func (s *Files) entry(p string) (*envd.EntryInfo, error) {
	st, errno := s.tree.Stat(p, false)
	if errno != 0 {
		return nil, failure(p, errno)
	}
	user := s.ids.Default().Name
	e := &envd.EntryInfo{
		Name: path.Base(p), Path: p, Size: st.Size, Mode: uint32(st.Mode.Perm()), Permissions: st.Mode.String(), Type: fileType(st.Mode),
		Owner: user, Group: user, ModifiedTime: time.Unix(0, st.Mtim).UTC(),
	}
	if st.Mode&fs.ModeSymlink != 0 {
		target, _ := s.tree.Readlink(p)
		e.SymlinkTarget = &target
		if to, errno := s.tree.Stat(p, true); errno == 0 {
			e.Type, e.Mode = fileType(to.Mode), uint32(to.Mode.Perm())
		}
	}
	return e, nil
}

func fileType(m fs.FileMode) envd.FileType {
	switch {
	case m.IsDir():
		return envd.FileTypeDirectory
	case m.IsRegular():
		return envd.FileTypeFile
	case m&fs.ModeSymlink != 0:
		return envd.FileTypeSymlink
	}
	return envd.FileTypeUnspecified
}

// resolve returns the absolute path of a request's.
func (s *Files) resolve(req *http.Request, p string) (string, error) {
	id, err := s.ids.Of(req)
	if err != nil {
		return "", err
	}
	return id.Resolve(p), nil
}

func (s *Files) answer(p string, err error) (*envd.EntryResponse, error) {
	if err != nil {
		return nil, err
	}
	e, err := s.entry(p)
	return &envd.EntryResponse{Entry: e}, err
}

func (s *Files) stat(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	p, err := s.resolve(req, in.Path)
	return s.answer(p, err)
}

func (s *Files) makeDir(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.EntryResponse, error) {
	p, err := s.resolve(req, in.Path)
	if err == nil {
		if st, errno := s.tree.Stat(p, true); errno == 0 && st.Mode.IsDir() {
			err = failure(p, experimental.EEXIST)
		} else {
			err = failure(p, s.tree.MkdirAll(p))
		}
	}
	return s.answer(p, err)
}

func (s *Files) move(_ *rpc.Conn, req *http.Request, in *envd.MoveRequest) (*envd.EntryResponse, error) {
	from, err := s.resolve(req, in.Source)
	if err != nil {
		return nil, err
	}
	to, err := s.resolve(req, in.Destination)
	if err == nil {
		_, errno := s.tree.Stat(from, false)
		err = failure(from, errno)
	}
	if err == nil {
		err = failure(path.Dir(to), s.tree.MkdirAll(path.Dir(to)))
	}
	if err == nil {
		err = failure(to, s.tree.Rename(from, to))
	}
	return s.answer(to, err)
}

func (s *Files) remove(_ *rpc.Conn, req *http.Request, in *envd.PathRequest) (*envd.Empty, error) {
	p, err := s.resolve(req, in.Path)
	if err == nil {
		err = failure(p, s.tree.RemoveAll(p))
	}
	return &envd.Empty{}, err
}

func (s *Files) listDir(_ *rpc.Conn, req *http.Request, in *envd.ListDirRequest) (*envd.ListDirResponse, error) {
	p, err := s.resolve(req, in.Path)
	if err != nil {
		return nil, err
	}
	var out envd.ListDirResponse
	return &out, s.listInto(&out, p, max(in.Depth, 1))
}

// listInto adds the entries of a directory, each followed by those below it. It does not follow
// links.
func (s *Files) listInto(out *envd.ListDirResponse, dir string, depth uint32) error {
	list, errno := s.tree.List(dir)
	if errno != 0 {
		return failure(dir, errno)
	}
	for _, l := range list {
		if len(out.Entries) >= maxEntries {
			return api.Errorf(api.KindExhausted, "the listing has more than %d entries", maxEntries)
		}
		p := path.Join(dir, l.Name)
		e, err := s.entry(p)
		if api.KindOf(err) == api.KindNotFound {
			continue // removed since the directory was read
		}
		if err != nil {
			return err
		}
		out.Entries = append(out.Entries, e)
		if depth > 1 && l.Stat.Mode.IsDir() {
			if err := s.listInto(out, p, depth-1); err != nil && api.KindOf(err) != api.KindNotFound {
				return err
			}
		}
	}
	return nil
}

// serveFiles serves GET and POST /files.
func (s *Files) serveFiles(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet, http.MethodPost); !ok {
		return err
	}
	var id *identity.Identity
	var err error
	if name := req.URL.Query().Get("username"); name != "" {
		id, err = s.ids.Named(req, name)
	} else {
		id, err = s.ids.Of(req)
	}
	if err == nil && req.Method == http.MethodGet {
		return s.download(c, req, id.Resolve(req.URL.Query().Get("path")))
	}
	var done []envd.WriteInfo
	if err == nil {
		done, err = s.upload(req, id)
	}
	if err != nil {
		return fail(c, err)
	}
	c.DrainOrClose(req)
	return c.AnswerJSON(done)
}

func fail(c *rpc.Conn, err error) error {
	e := envd.FromAPI(err)
	status := e.HTTPStatus()
	if errors.Is(err, errNoSpace) {
		status = http.StatusInsufficientStorage
	}
	return c.Fail(status, e.Message)
}

// download answers with a file.
func (s *Files) download(c *rpc.Conn, req *http.Request, p string) error {
	f, errno := s.tree.Open(p, experimental.O_RDONLY, 0)
	if errno != 0 {
		return fail(c, failure(p, errno))
	}
	defer f.Close()
	st := f.Stat()
	if !st.Mode.IsRegular() {
		return fail(c, api.Errorf(api.KindInvalid, "path '%s' is a directory", p))
	}
	c.DrainOrClose(req)
	w := rpc.NewWriter(c)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(p)}))
	w.Header().Set("Content-Type", "application/octet-stream")
	if ct := mime.TypeByExtension(path.Ext(p)); ct != "" {
		w.Header().Set("Content-Type", ct)
	}
	http.ServeContent(w, req, "", time.Unix(0, st.Mtim), io.NewSectionReader(reader{f}, 0, st.Size))
	return w.Finish()
}

// reader reads a file of a tree as an io.ReaderAt.
type reader struct{ f *memfs.File }

func (r reader) ReadAt(p []byte, off int64) (int, error) {
	n, errno := r.f.ReadAt(p, off)
	switch {
	case errno != 0:
		return n, errno
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// upload writes the file, or the form of several, of a request.
func (s *Files) upload(req *http.Request, id *identity.Identity) ([]envd.WriteInfo, error) {
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return nil, api.Errorf(api.KindUnsupported, "files of wasm sandboxes have no metadata")
		}
	}
	body := io.Reader(req.Body)
	switch enc := req.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		zr, err := gzip.NewReader(req.Body)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "the body is not gzip: %w", err)
		}
		body = zr
	default:
		return nil, api.Errorf(api.KindInvalid, "content encoding %q is not supported", enc)
	}
	p := req.URL.Query().Get("path")
	how, err := envd.ParseUpload(req.URL.Query())
	if err != nil {
		return nil, err
	}
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "parse content type: %w", err)
	case media == "multipart/form-data" && params["boundary"] != "":
		return s.uploadForm(id, p, how, multipart.NewReader(body, params["boundary"]))
	case media != "application/octet-stream":
		return nil, api.Errorf(api.KindInvalid, "content type %q is not supported: use multipart/form-data or application/octet-stream", media)
	case p == "":
		return nil, api.Errorf(api.KindInvalid, "the request has no path")
	}
	info, err := s.write(id.Resolve(p), how, body)
	return []envd.WriteInfo{info}, err
}

// uploadForm writes each part named "file".
func (s *Files) uploadForm(id *identity.Identity, p string, how envd.Upload, form *multipart.Reader) ([]envd.WriteInfo, error) {
	var done []envd.WriteInfo
	for {
		part, err := form.NextRawPart()
		if err == io.EOF && len(done) > 0 {
			return done, nil
		}
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "the form: %w", err)
		}
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "the form: %w", err)
		}
		if params["name"] != "file" {
			continue
		}
		to := p
		if to == "" {
			to = params["filename"]
		}
		switch {
		case to == "":
			return nil, api.Errorf(api.KindInvalid, "a part of the form has no path")
		case p != "" && len(done) == 1:
			return nil, api.Errorf(api.KindInvalid, "the form has several files, but the query has one path")
		case len(done) >= maxParts:
			return nil, api.Errorf(api.KindExhausted, "the form has more than %d files", maxParts)
		}
		info, err := s.write(id.Resolve(to), how, part)
		if err != nil {
			return nil, err
		}
		done = append(done, info)
	}
}

// write writes a file: into the one that is there, or with Aside into a new one that takes its
// place when it is whole.
func (s *Files) write(p string, how envd.Upload, body io.Reader) (envd.WriteInfo, error) {
	info := envd.WriteInfo{Name: path.Base(p), Path: p, Type: "file"}
	if errno := s.tree.MkdirAll(path.Dir(p)); errno != 0 {
		return info, failure(path.Dir(p), errno)
	}
	to := p
	if how.Aside || how.Link != "" {
		to = path.Join(path.Dir(p), ".hortus-"+rand.Text())
	}
	var err error
	if how.Link != "" {
		info.Type = "symlink"
		err = failure(p, s.tree.Symlink(how.Link, to))
	} else {
		err = s.fill(to, p, how, body)
	}
	if err == nil && to != p {
		err = failure(p, s.tree.Rename(to, p))
	}
	if err != nil && to != p {
		s.tree.RemoveAll(to)
	}
	return info, err
}

// fill writes the content of a file. p is its name in errors.
func (s *Files) fill(to, p string, how envd.Upload, body io.Reader) error {
	f, errno := s.tree.Open(to, experimental.O_WRONLY|experimental.O_CREAT|experimental.O_TRUNC, 0o644)
	if errno != 0 {
		return failure(p, errno)
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := body.Read(buf)
		if _, errno := f.WriteAt(buf[:n], off); errno != 0 {
			return failure(p, errno)
		}
		off += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return api.Errorf(api.KindInvalid, "read the body: %w", err)
		}
	}
	if how.Mode != nil {
		s.tree.Chmod(to, *how.Mode)
	}
	if !how.ModTime.IsZero() {
		f.Utimens(experimental.UTIME_OMIT, how.ModTime.UnixNano())
	}
	return nil
}
