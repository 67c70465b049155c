package files

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

// serveFiles serves GET and POST /files.
func (s *Service) serveFiles(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet, http.MethodPost); !ok {
		return err
	}
	id, err := s.fileIdentity(req)
	if err != nil {
		return fail(c, err)
	}
	if req.Method == http.MethodPost {
		return s.upload(c, req, id)
	}
	return s.download(c, req, id)
}

// fileIdentity returns the identity of a plain request, which is named in the query or, if
// not there, in the authorization.
func (s *Service) fileIdentity(req *http.Request) (*identity.Identity, error) {
	if name := req.URL.Query().Get("username"); name != "" {
		return s.ids.Named(req, name)
	}
	return s.ids.Of(req)
}

// fail answers a plain request with an error and E2B's status.
func fail(c *rpc.Conn, err error) error {
	e := envd.FromAPI(err)
	status := e.HTTPStatus()
	switch {
	case errors.Is(err, errNoSpace):
		status = http.StatusInsufficientStorage
	case errors.Is(err, errEncoding):
		status = http.StatusNotAcceptable
	}
	return c.Fail(status, e.Message)
}

var (
	errNoSpace  = errors.New("no space left")
	errEncoding = errors.New("none of the accepted encodings is supported")
)

// maxUnsized is the maximum size of a file that says that it is empty, such as one of /proc.
const maxUnsized = 4 << 20

// openRegular opens a regular file and refuses others: a device or a FIFO must not block
// the guest. It must be called with the identity's rights.
func openRegular(path string, flags int) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		if errors.Is(err, unix.ENXIO) { // a FIFO without a reader, or a socket
			return nil, nil, api.Errorf(api.KindInvalid, "path '%s' is not a regular file", path)
		}
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		what := "not a regular file"
		if fi.IsDir() {
			what = "a directory"
		}
		err = api.Errorf(api.KindInvalid, "path '%s' is %s", path, what)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

func (s *Service) download(c *rpc.Conn, req *http.Request, id *identity.Identity) error {
	path := id.Resolve(req.URL.Query().Get("path"))
	var f *os.File
	var fi os.FileInfo
	err := s.access.As(&id.Identity, func() (err error) {
		f, fi, err = openRegular(path, os.O_RDONLY)
		return err
	})
	if err != nil {
		return fail(c, Error(path, err))
	}
	defer f.Close()
	plain, zipped := acceptedEncodings(req.Header)
	if !plain && !zipped {
		return fail(c, api.Errorf(api.KindInvalid, "%w", errEncoding))
	}
	c.DrainOrClose(req)
	w := rpc.NewWriter(c)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", "application/octet-stream")
	if ct := mime.TypeByExtension(filepath.Ext(path)); ct != "" {
		w.Header().Set("Content-Type", ct)
	}
	if zipped && (!plain || (fi.Size() > 0 && !conditional(req.Header))) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Last-Modified", fi.ModTime().UTC().Format(http.TimeFormat))
		zw, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		if _, err := io.Copy(zw, f); err != nil {
			return err // the client detects it by the missing last chunk
		}
		if err := zw.Close(); err != nil {
			return err
		}
		return w.Finish()
	}
	content := io.ReadSeeker(f)
	if fi.Size() == 0 { // a file of /proc has no size, may not be sought, and may look at the rights of who reads it
		var text []byte
		err := s.access.As(&id.Identity, func() (err error) {
			text, err = io.ReadAll(io.LimitReader(f, maxUnsized+1))
			return err
		})
		if err == nil && len(text) > maxUnsized {
			err = api.Errorf(api.KindInvalid, "path '%s' has no size and more than %d bytes", path, maxUnsized)
		}
		if err != nil {
			return fail(c, Error(path, err))
		}
		content = bytes.NewReader(text)
	}
	http.ServeContent(w, req, "", fi.ModTime(), content)
	return w.Finish()
}

// conditional reports whether the request is for a part of the file, or depends on whether
// the file changed.
func conditional(h http.Header) bool {
	for _, name := range []string{"Range", "If-Range", "If-Modified-Since", "If-None-Match", "If-Match", "If-Unmodified-Since"} {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// acceptedEncodings parses Accept-Encoding and reports whether identity and gzip are
// accepted.
func acceptedEncodings(h http.Header) (plain, zipped bool) {
	plain = true
	star := -1.0
	named := false
	for item := range strings.SplitSeq(h.Get("Accept-Encoding"), ",") {
		name, param, _ := strings.Cut(strings.ToLower(strings.TrimSpace(item)), ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.TrimSpace(param), "q="); ok {
			if f, err := strconv.ParseFloat(v, 64); err == nil {
				q = f
			}
		}
		switch strings.TrimSpace(name) {
		case "gzip":
			zipped = q > 0
		case "identity":
			plain, named = q > 0, true
		case "*":
			star = q
		}
	}
	if star == 0 && !named {
		plain = false
	}
	return plain, zipped
}

// compose concatenates files into one.
func (s *Service) compose(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodPost); !ok {
		return err
	}
	var in struct {
		Sources     []string `json:"source_paths"`
		Destination string   `json:"destination"`
		Username    string   `json:"username"`
	}
	if err := readJSON(req.Body, &in); err != nil {
		return c.Fail(http.StatusBadRequest, "the request: "+err.Error())
	}
	id, err := s.ids.Named(req, in.Username)
	if err == nil && in.Username == "" {
		id, err = s.fileIdentity(req)
	}
	if err == nil && (in.Destination == "" || len(in.Sources) == 0 || len(in.Sources) > maxCompose) {
		err = api.Errorf(api.KindInvalid, "source_paths must have 1 to %d paths, and destination one", maxCompose)
	}
	if err != nil {
		return fail(c, err)
	}
	dest := id.Resolve(in.Destination)
	for _, source := range in.Sources {
		if id.Resolve(source) == dest {
			return fail(c, api.Errorf(api.KindInvalid, "path '%s' is both a source and the destination", dest))
		}
	}
	src := &concatenation{s: s, id: id, paths: in.Sources}
	defer src.Close()
	info, err := s.writeFile(id, dest, envd.Upload{}, src, nil)
	if err != nil {
		return fail(c, err)
	}
	return c.AnswerJSON(info)
}

const maxCompose = 10_000

// concatenation reads files one after another.
type concatenation struct {
	s     *Service
	id    *identity.Identity
	paths []string
	f     *os.File
}

func (j *concatenation) Read(p []byte) (int, error) {
	for {
		if j.f == nil {
			if len(j.paths) == 0 {
				return 0, io.EOF
			}
			path := j.id.Resolve(j.paths[0])
			err := j.s.access.As(&j.id.Identity, func() (err error) {
				j.f, _, err = openRegular(path, os.O_RDONLY)
				return err
			})
			if err != nil {
				return 0, Error(path, err)
			}
			j.paths = j.paths[1:]
		}
		n, err := j.f.Read(p)
		if err == io.EOF {
			j.Close()
			if n == 0 {
				continue
			}
			err = nil
		}
		return n, err
	}
}

func (j *concatenation) Close() {
	if j.f != nil {
		j.f.Close()
		j.f = nil
	}
}
