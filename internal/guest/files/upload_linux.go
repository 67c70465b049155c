package files

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

const (
	// maxMetadata is the maximum size of a file's metadata, keys and values together, in
	// bytes.
	maxMetadata = 4096
	// maxMetadataKey is the maximum length of a key: that of an attribute's name without
	// the prefix.
	maxMetadataKey = 246
	// maxParts is the maximum number of files of one upload.
	maxParts = 10_000
	// metadataHeader begins the names of headers with metadata.
	metadataHeader = "X-Metadata-"
)

// upload serves POST /files: a body of one file, or a form of several.
func (s *Service) upload(c *rpc.Conn, req *http.Request, id *identity.Identity) error {
	meta, err := metadataOf(req.Header)
	if err != nil {
		return fail(c, err)
	}
	body := io.Reader(req.Body)
	switch enc := req.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		zr, err := gzip.NewReader(req.Body)
		if err != nil {
			return fail(c, api.Errorf(api.KindInvalid, "the body is not gzip: %w", err))
		}
		defer zr.Close()
		body = zr
	default:
		return fail(c, api.Errorf(api.KindInvalid, "content encoding %q is not supported", enc))
	}
	path := req.URL.Query().Get("path")
	how, err := envd.ParseUpload(req.URL.Query())
	if err != nil {
		return fail(c, err)
	}
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return fail(c, api.Errorf(api.KindInvalid, "parse content type: %w", err))
	}
	var done []envd.WriteInfo
	switch media {
	case "application/octet-stream":
		if path == "" {
			return fail(c, api.Errorf(api.KindInvalid, "the request has no path"))
		}
		var info envd.WriteInfo
		info, err = s.writeFile(id, id.Resolve(path), how, body, meta)
		done = append(done, info)
	case "multipart/form-data":
		done, err = s.uploadForm(id, path, how, body, params["boundary"], meta)
	default:
		err = api.Errorf(api.KindInvalid, "content type %q is not supported: use multipart/form-data or application/octet-stream", media)
	}
	if err != nil {
		return fail(c, err)
	}
	c.DrainOrClose(req)
	return c.AnswerJSON(done)
}

// uploadForm writes each part named "file". If the query has no path, the path is the file
// name of the part. Package mime parses it, because multipart strips directories.
func (s *Service) uploadForm(id *identity.Identity, path string, how envd.Upload, body io.Reader, boundary string, meta map[string]string) ([]envd.WriteInfo, error) {
	if boundary == "" {
		return nil, api.Errorf(api.KindInvalid, "the form has no boundary")
	}
	mr := multipart.NewReader(body, boundary)
	var done []envd.WriteInfo
	for {
		part, err := mr.NextRawPart()
		if err == io.EOF {
			if len(done) == 0 {
				return nil, api.Errorf(api.KindInvalid, "the form has no part named \"file\"")
			}
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
		to := path
		to = cmp.Or(to, params["filename"])
		if to == "" {
			return nil, api.Errorf(api.KindInvalid, "a part of the form has no path")
		}
		if path != "" && len(done) == 1 {
			return nil, api.Errorf(api.KindInvalid, "the form has several files, but the query has one path")
		}
		if len(done) >= maxParts {
			return nil, api.Errorf(api.KindExhausted, "the form has more than %d files", maxParts)
		}
		info, err := s.writeFile(id, id.Resolve(to), how, part, meta)
		if err != nil {
			return nil, err
		}
		done = append(done, info)
	}
}

// metadataOf parses the X-Metadata headers.
func metadataOf(h http.Header) (map[string]string, error) {
	var out map[string]string
	var total int
	for name, values := range h {
		key, ok := strings.CutPrefix(name, metadataHeader)
		if !ok || len(values) == 0 {
			continue
		}
		key = strings.ToLower(key)
		total += len(key) + len(values[0])
		if key == "" || len(key) > maxMetadataKey || total > maxMetadata {
			return nil, api.Errorf(api.KindInvalid, "metadata: a key can have at most %d bytes, and all keys and values together %d", maxMetadataKey, maxMetadata)
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = values[0]
	}
	return out, nil
}

// setMetadata replaces the metadata of a file.
func setMetadata(f *os.File, meta map[string]string) error {
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	var list [8 << 10]byte
	n, err := unix.Flistxattr(int(f.Fd()), list[:])
	if err == nil {
		for name := range strings.SplitSeq(string(list[:n]), "\x00") {
			if strings.HasPrefix(name, xattrPrefix) {
				unix.Fremovexattr(int(f.Fd()), name)
			}
		}
	}
	for k, v := range meta {
		if err := unix.Fsetxattr(int(f.Fd()), xattrPrefix+k, []byte(v), 0); err != nil {
			if errors.Is(err, unix.ENOTSUP) {
				return api.Errorf(api.KindInvalid, "the file system does not support metadata")
			}
			return &os.PathError{Op: "setxattr", Path: path, Err: err}
		}
	}
	return nil
}

// readJSON parses a JSON body of up to 1 MiB.
func readJSON(r io.Reader, v any) error {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20+1))
	if err != nil {
		return err
	}
	if len(data) > 1<<20 {
		return errors.New("the body is longer than 1 MiB")
	}
	return json.Unmarshal(data, v)
}
