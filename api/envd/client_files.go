package envd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"hortus.dev/api"
)

// Stat describes a file.
func (c *Client) Stat(ctx context.Context, user, path string) (*EntryInfo, error) {
	return c.entry(ctx, FSStat, user, true, &PathRequest{Path: path})
}

// MakeDir makes a directory and its parents. One that is there already is an
// error of CodeAlreadyExists.
func (c *Client) MakeDir(ctx context.Context, user, path string) (*EntryInfo, error) {
	return c.entry(ctx, FSMakeDir, user, false, &PathRequest{Path: path})
}

// Move renames a file and makes the parents of its new place.
func (c *Client) Move(ctx context.Context, user, from, to string) (*EntryInfo, error) {
	return c.entry(ctx, FSMove, user, false, &MoveRequest{Source: from, Destination: to})
}

func (c *Client) entry(ctx context.Context, proc, user string, idempotent bool, in Message) (*EntryInfo, error) {
	var out EntryResponse
	if err := c.unary(ctx, proc, user, idempotent, in, &out); err != nil {
		return nil, err
	}
	if out.Entry == nil {
		return nil, api.Errorf(api.KindInternal, "the guest's answer does not name a file")
	}
	return out.Entry, nil
}

// ListDir lists a directory down to depth levels, at least 1.
func (c *Client) ListDir(ctx context.Context, user, path string, depth int) ([]*EntryInfo, error) {
	var out ListDirResponse
	err := c.unary(ctx, FSListDir, user, true, &ListDirRequest{Path: path, Depth: uint32(max(depth, 0))}, &out)
	return out.Entries, err
}

// Remove removes a file or a whole directory; what is not there is no error.
func (c *Client) Remove(ctx context.Context, user, path string) error {
	return c.unary(ctx, FSRemove, user, true, &PathRequest{Path: path}, new(Empty))
}

// WatchStream gives the changes of a directory.
type WatchStream struct{ s *stream }

// WatchDir watches a directory. When it returns, changes are being recorded.
func (c *Client) WatchDir(ctx context.Context, user string, req WatchRequest) (*WatchStream, error) {
	s, err := c.openStream(ctx, FSWatchDir, &req, []header{connectHeader, versionHeader, userHeader(user)})
	if err != nil {
		return nil, err
	}
	var first WatchDirResponse
	if err := s.next(&first); err != nil {
		s.Close()
		return nil, err
	}
	return &WatchStream{s: s}, nil
}

// Next waits for the next change.
func (w *WatchStream) Next() (*FilesystemEvent, error) {
	for {
		var m WatchDirResponse
		if err := w.s.next(&m); err != nil {
			return nil, err
		}
		if m.Filesystem != nil {
			return m.Filesystem, nil
		}
	}
}

// Close ends the watch. It is idempotent.
func (w *WatchStream) Close() error { return w.s.Close() }

func filesQuery(user, path string) url.Values {
	q := url.Values{"path": {path}}
	if user != "" {
		q.Set("username", user)
	}
	return q
}

func filesPath(user, path string) string { return PathFiles + "?" + filesQuery(user, path).Encode() }

// get sends a GET, again if a kept connection was dead.
func (c *Client) httpGet(ctx context.Context, path string, extra ...header) (*clientConn, *http.Response, func() bool, error) {
	for fresh := false; ; fresh = true {
		cc, err := c.get(ctx, fresh)
		if err != nil {
			return nil, nil, nil, err
		}
		cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodGet, path, "", 0, append([]header{versionHeader}, extra...))
		stop := watch(ctx, cc)
		var resp *http.Response
		if err == nil {
			resp, err = c.exchange(ctx, cc, http.MethodGet)
		}
		if err == nil {
			return cc, resp, stop, nil
		}
		stop()
		cc.Close()
		if !errors.Is(err, errStale) || fresh {
			return nil, nil, nil, err
		}
	}
}

// ReadFile opens a file in the sandbox for reading. The size is -1 when the
// guest does not say it. The reader must be closed.
func (c *Client) ReadFile(ctx context.Context, user, path string) (io.ReadCloser, int64, error) {
	return c.readFile(ctx, filesPath(user, path))
}

// ReadPart opens a part of a file for reading: from an offset that is in the file, or 0, at most n bytes. The size is that of the part.
func (c *Client) ReadPart(ctx context.Context, user, path string, offset, n int64) (io.ReadCloser, int64, error) {
	return c.readFile(ctx, filesPath(user, path), header{"Range", fmt.Sprintf("bytes=%d-%d", offset, offset+n-1)})
}

func (c *Client) readFile(ctx context.Context, path string, part ...header) (io.ReadCloser, int64, error) {
	cc, resp, stop, err := c.httpGet(ctx, path, part...)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode != http.StatusOK && (len(part) == 0 || resp.StatusCode != http.StatusPartialContent) {
		err := readError(resp)
		if stop() {
			c.finish(cc, resp)
		}
		return nil, 0, err
	}
	return &fileReader{s: stream{c: c, cc: cc, ctx: ctx, stop: stop, resp: resp}}, resp.ContentLength, nil
}

type fileReader struct{ s stream }

func (f *fileReader) Read(p []byte) (int, error) {
	if f.s.err != nil {
		return 0, f.s.err
	}
	n, err := f.s.resp.Body.Read(p)
	switch {
	case err == io.EOF:
		f.s.err = io.EOF
		f.s.release()
	case err != nil:
		f.s.fail(cut(f.s.ctx, err))
	}
	if n > 0 {
		return n, nil
	}
	return 0, f.s.err
}

func (f *fileReader) Close() error { return f.s.Close() }

// WriteFile writes a file whole, with its parents, from r. A failure leaves
// what was written so far.
func (c *Client) WriteFile(ctx context.Context, user, path string, r io.Reader) error {
	return c.Upload(ctx, user, path, Upload{}, r)
}

// Upload writes a file whole, with its parents, from r, as u says.
func (c *Client) Upload(ctx context.Context, user, path string, u Upload, r io.Reader) error {
	q := filesQuery(user, path)
	u.set(q)
	cc, err := c.get(ctx, false)
	if err != nil {
		return err
	}
	cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPost, PathFiles+"?"+q.Encode(), "application/octet-stream", -1,
		[]header{versionHeader})
	stop := watch(ctx, cc)
	var rerr error
	if err == nil {
		rerr, err = cc.sendChunks(r)
	}
	if rerr != nil {
		stop()
		cc.Close() // without the last chunk: the guest must not take it for whole
		return rerr
	}
	resp, herr := c.readHead(cc, http.MethodPost)
	if herr != nil {
		stop()
		cc.Close()
		if err == nil {
			err = herr
		}
		return cut(ctx, err)
	}
	var verdict error
	if resp.StatusCode/100 != 2 {
		verdict = readError(resp)
	} else if err != nil {
		verdict = cut(ctx, err)
	}
	if !stop() || err != nil {
		cc.Close()
		return verdict
	}
	c.finish(cc, resp)
	return verdict
}

// sendChunks sends the head in wbuf and then all of r.
func (cc *clientConn) sendChunks(r io.Reader) (readErr, writeErr error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(r, buf)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err, nil
		}
		if n > 0 {
			cc.wbuf = appendChunk(cc.wbuf, buf[:n])
		}
		if err != nil {
			cc.wbuf = append(cc.wbuf, "0\r\n\r\n"...)
		}
		if _, werr := cc.Write(cc.wbuf); werr != nil {
			return nil, werr
		}
		cc.wbuf = cc.wbuf[:0]
		if err != nil {
			return nil, nil
		}
	}
}

// Health asks whether the guest answers at all.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.plain(ctx, PathHealth)
	return err
}

// Metrics requests the sandbox's own view of what it uses.
func (c *Client) Metrics(ctx context.Context) (Metrics, error) {
	var m Metrics
	body, err := c.plain(ctx, PathMetrics)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, api.Errorf(api.KindInternal, "the guest's metrics: %w", err)
	}
	return m, nil
}

func (c *Client) plain(ctx context.Context, path string) ([]byte, error) {
	cc, resp, stop, err := c.httpGet(ctx, path)
	if err != nil {
		return nil, err
	}
	cc.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	var body []byte
	if resp.StatusCode/100 != 2 {
		err = readError(resp)
	} else if body, err = io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err != nil {
		err = cut(ctx, err)
	}
	cc.SetReadDeadline(time.Time{})
	if !stop() {
		cc.Close()
		return body, err
	}
	c.finish(cc, resp)
	return body, err
}
