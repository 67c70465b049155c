package http

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

var (
	pathParam = Param{Name: "path", Doc: "Path in the sandbox. One that does not begin with / starts in /workspace, one that begins with ~/ in the user's home.", Type: "", Required: true}
	userParam = Param{Name: "user", Doc: "User whose rights apply (default: that of commands).", Type: ""}
)

// fileRoutes are the files of a sandbox.
func (d guests) fileRoutes() []Route {
	const files = "/v1/sandboxes/{id}/files"
	params := []Param{pathParam, userParam}
	return []Route{{
		Method: "GET", Pattern: files, Name: "readFile", Role: api.RoleUser,
		Doc:     "Read a file.",
		OutType: typeBytes, Params: params,
		Handler: d.file(http.MethodGet),
	}, {
		Method: "PUT", Pattern: files, Name: "writeFile", Role: api.RoleUser,
		Doc:    "Write a file, of which the body is the whole content. Missing directories are created.",
		InType: typeBytes, Out: []envd.WriteInfo{}, Params: params,
		Handler: d.file(http.MethodPost),
	}, {
		Method: "DELETE", Pattern: files, Name: "removeFile", Role: api.RoleUser,
		Doc:    "Remove a file, or a directory with everything in it. A path that does not exist is no error.",
		Status: http.StatusNoContent, Params: params,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			_, err := d.onFile(r, func(ctx context.Context, c *envd.Client, user, path string) (v []api.FileInfo, err error) {
				return nil, c.Remove(ctx, user, path)
			})
			return done(w, err)
		},
	}, {
		Method: "GET", Pattern: files + "/info", Name: "fileInfo", Role: api.RoleUser,
		Doc: "Get the type, size, owner and time of a file or directory.",
		Out: api.FileInfo{}, Params: params,
		Handler: d.oneFile(http.StatusOK, (*envd.Client).Stat),
	}, {
		Method: "GET", Pattern: files + "/list", Name: "listFiles", Role: api.RoleUser,
		Doc: "List a directory.",
		Out: []api.FileInfo{}, Params: append(params, Param{Name: "depth", Doc: "Levels of directories to list, 1 to 64 (default 1).", Type: 0}),
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			depth := int64(1)
			if s := r.URL.Query().Get("depth"); s != "" {
				var err error
				if depth, err = number(s); err != nil || depth < 1 || depth > 64 {
					return api.Errorf(api.KindInvalid, "depth %.20q is not a number between 1 and 64", s)
				}
			}
			list, err := d.onFile(r, func(ctx context.Context, c *envd.Client, user, path string) ([]api.FileInfo, error) {
				entries, err := c.ListDir(ctx, user, path, int(depth))
				out := make([]api.FileInfo, len(entries))
				for i, e := range entries {
					out[i] = fileInfo(e)
				}
				return out, err
			})
			return reply(w, http.StatusOK, list, err)
		},
	}, {
		Method: "PUT", Pattern: files + "/directory", Name: "makeDirectory", Role: api.RoleUser,
		Doc: "Create a directory with its parents. An existing one is a 409.",
		Out: api.FileInfo{}, Status: http.StatusCreated, Params: params,
		Handler: d.oneFile(http.StatusCreated, (*envd.Client).MakeDir),
	}, {
		Method: "POST", Pattern: files + "/move", Name: "moveFile", Role: api.RoleUser,
		Doc: "Rename a file or directory to the path \"to\". Missing directories are created.",
		Out: api.FileInfo{}, Params: append(params, Param{Name: "to", Doc: "New path, by the same rule.", Type: "", Required: true}),
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			return d.oneFile(http.StatusOK, func(c *envd.Client, ctx context.Context, user, path string) (*envd.EntryInfo, error) {
				return c.Move(ctx, user, path, r.URL.Query().Get("to"))
			})(w, r)
		},
	}}
}

func fileInfo(e *envd.EntryInfo) api.FileInfo {
	out := api.FileInfo{
		Name: e.Name, Path: e.Path, Type: "file", Size: e.Size, Mode: e.Mode, Owner: e.Owner, Group: e.Group, ModifiedAt: e.ModifiedTime,
	}
	switch e.Type {
	case envd.FileTypeDirectory:
		out.Type = "directory"
	case envd.FileTypeSymlink:
		out.Type = "symlink"
	}
	if e.SymlinkTarget != nil {
		out.Target = *e.SymlinkTarget
	}
	return out
}

// oneFile serves a call of the guest about one file.
func (d guests) oneFile(status int, call func(c *envd.Client, ctx context.Context, user, path string) (*envd.EntryInfo, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		list, err := d.onFile(r, func(ctx context.Context, c *envd.Client, user, path string) ([]api.FileInfo, error) {
			e, err := call(c, ctx, user, path)
			if err != nil {
				return nil, err
			}
			return []api.FileInfo{fileInfo(e)}, nil
		})
		if err != nil {
			return err
		}
		answer(w, status, list[0])
		return nil
	}
}

// onFile calls the guest about the file of a request.
func (d guests) onFile(r *http.Request, call func(ctx context.Context, c *envd.Client, user, path string) ([]api.FileInfo, error)) ([]api.FileInfo, error) {
	id, err := sandboxID(d.sandboxes)(r)
	if err != nil {
		return nil, err
	}
	c := envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) { return d.sandboxes.Guest(ctx, id) }})
	defer c.Close()
	q := r.URL.Query()
	out, err := call(r.Context(), c, q.Get("user"), q.Get("path"))
	return out, envd.APIError(err)
}

// file passes the content of a file on, in one direction.
func (d guests) file(method string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := sandboxID(d.sandboxes)(r)
		if err == nil {
			_, err = d.sandboxes.Get(r.Context(), id)
		}
		if err != nil {
			return err
		}
		q := r.URL.Query()
		to := url.Values{"path": {q.Get("path")}}
		if q.Has("user") {
			to.Set("username", q.Get("user"))
		}
		in := r.Clone(r.Context())
		in.Method, in.URL = method, &url.URL{Path: envd.PathFiles, RawQuery: to.Encode()}
		in.Header.Del("Authorization") // the key may be there; the user is in the query
		if method == http.MethodPost {
			in.Header.Set("Content-Type", typeBytes)
		}
		d.pass(w, in, id)
		return nil
	}
}

// pass passes a request on to the guest. Relative paths of files start where those of commands do,
// and an error of a plain path becomes a problem, as everywhere in /v1.
func (d guests) pass(w http.ResponseWriter, in *http.Request, id api.SandboxID) {
	if envd.Writes(in.Method, in.URL.Path) {
		if err := d.sandboxes.Upload(in.Context(), id, in.ContentLength); err != nil {
			fail(w, err)
			return
		}
	}
	plain := in.URL.Path == envd.PathFiles
	if plain || strings.HasPrefix(in.URL.Path, "/filesystem.") {
		if in.Header = in.Header.Clone(); in.Header == nil {
			in.Header = http.Header{}
		}
		in.Header.Set(envd.HeaderVersion, envd.Version)
	}
	if !plain {
		d.proxy.Serve(w, in, id)
		return
	}
	p := &problemWriter{ResponseWriter: w}
	d.proxy.Serve(p, in, id)
	if p.status != 0 {
		for name := range w.Header() {
			w.Header().Del(name)
		}
		fail(w, statusError{envd.ParseAnswer(p.status, p.body.Bytes()).API(), p.status})
	}
}

// maxGuestError bounds what is read of an error of a guest, in bytes.
const maxGuestError = 64 << 10

// problemWriter holds an answer back that is an error of the guest.
type problemWriter struct {
	http.ResponseWriter
	status int // 0 unless it is held back
	body   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (p *problemWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *problemWriter) WriteHeader(status int) {
	if status >= 400 && p.Header().Get("Content-Type") != typeProblem {
		p.status = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *problemWriter) Write(b []byte) (int, error) {
	if p.status == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.body.Write(b[:min(len(b), maxGuestError-p.body.Len())])
	return len(b), nil
}

// FlushError is called through http.ResponseController.
func (p *problemWriter) FlushError() error {
	if p.status != 0 {
		return nil
	}
	return http.NewResponseController(p.ResponseWriter).Flush()
}
