//go:build linux

package guest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"hortus.dev/api/envd"
)

func (g *guestProc) http() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return g.dial(ctx) }}}
}

func (g *guestProc) do(t *testing.T, method, path string, body io.Reader, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, "http://guest"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := g.http().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, data
}

// ours is do for a client of Hortus, whose relative paths start in the workspace; those of
// other clients start at home.
func (g *guestProc) ours(t *testing.T, method, path string, body io.Reader, header map[string]string) (*http.Response, []byte) {
	t.Helper()
	h := map[string]string{envd.HeaderVersion: "1"}
	maps.Copy(h, header)
	return g.do(t, method, path, body, h)
}

func TestBigFileThereAndBack(t *testing.T) {
	g := startGuest(t, guestOptions{})
	data := make([]byte, 20<<20+7)
	rand.NewChaCha8([32]byte{2}).Read(data)
	if err := g.client.WriteFile(t.Context(), "", "a/big", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	r, size, err := g.client.ReadFile(t.Context(), "user", "a/big")
	if err != nil || size != int64(len(data)) {
		t.Fatal(size, err)
	}
	defer r.Close()
	back, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(back, data) {
		t.Fatalf("%d bytes, %v", len(back), err)
	}
}

func TestDownloads(t *testing.T) {
	g := startGuest(t, guestOptions{})
	os.WriteFile(filepath.Join(g.cfg.Workspace, "f"), []byte("0123456789"), 0o644)
	os.WriteFile(filepath.Join(g.cfg.Workspace, "empty"), nil, 0o644)
	g.mustRun(t, "mkfifo fifo; mkdir dir")
	for _, tc := range []struct {
		query  string
		header map[string]string
		status int
		body   string
	}{
		{"path=f", nil, 200, "0123456789"},
		{"path=f&username=user", map[string]string{"Range": "bytes=2-4"}, 206, "234"},
		{"path=f", map[string]string{"Range": "bytes=100-"}, 416, ""},
		{"path=f", map[string]string{"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 304, ""},
		{"path=empty", nil, 200, ""},
		{"path=empty", map[string]string{"Accept-Encoding": "gzip"}, 200, ""},
		{"path=/proc/sys/kernel/ostype", nil, 200, "Linux\n"},
		{"path=/proc/sys/kernel/ostype", map[string]string{"Accept-Encoding": "gzip"}, 200, "Linux\n"},
		{"path=nothing", nil, 404, "does not exist"},
		{"path=dir", nil, 400, "is a directory"},
		{"path=fifo", nil, 400, "not a regular file"},
		{"path=/dev/zero", nil, 400, "not a regular file"},
		{"path=f&username=stranger", nil, 401, "not found in this sandbox"},
		{"path=f", map[string]string{"Accept-Encoding": "br, *;q=0"}, 406, ""},
	} {
		resp, body := g.ours(t, "GET", "/files?"+tc.query, nil, tc.header)
		if resp.StatusCode != tc.status || (tc.status < 300 && string(body) != tc.body) || !strings.Contains(string(body), tc.body) {
			t.Errorf("%s %v: %d %q", tc.query, tc.header, resp.StatusCode, body)
		}
		if tc.status >= 400 && tc.status != 416 {
			var e struct{ Code int }
			if json.Unmarshal(body, &e) != nil || e.Code != tc.status {
				t.Errorf("%s: the body does not tell the code: %s", tc.query, body)
			}
		}
	}
	resp, body := g.ours(t, "GET", "/files?path=f", nil, map[string]string{"Accept-Encoding": "gzip, deflate"})
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(err, resp.Header)
	}
	if plain, err := io.ReadAll(zr); err != nil || string(plain) != "0123456789" {
		t.Errorf("%q %v", plain, err)
	}
}

func TestUploads(t *testing.T) {
	g := startGuest(t, guestOptions{})
	var form bytes.Buffer
	mw := multipart.NewWriter(&form)
	for _, name := range []string{g.cfg.Workspace + "/x/one", "~/hortus-guest-two"} {
		h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}}
		part, err := mw.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(part, "in "+filepath.Base(name))
	}
	mw.Close()
	t.Cleanup(func() { os.Remove("/tmp/hortus-guest-two") })
	resp, body := g.ours(t, "POST", "/files", &form, map[string]string{"Content-Type": mw.FormDataContentType()})
	want := `[{"name":"one","path":"` + g.cfg.Workspace + `/x/one","type":"file"},{"name":"hortus-guest-two","path":"/tmp/hortus-guest-two","type":"file"}]`
	if resp.StatusCode != 200 || string(body) != want {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if got, err := os.ReadFile("/tmp/hortus-guest-two"); err != nil || string(got) != "in hortus-guest-two" {
		t.Errorf("%q %v", got, err)
	}
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	io.WriteString(zw, "unzipped")
	zw.Close()
	octet := map[string]string{"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
	if resp, body := g.ours(t, "POST", "/files?path=z", &zipped, octet); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if got, _ := os.ReadFile(g.cfg.Workspace + "/z"); string(got) != "unzipped" {
		t.Errorf("%q", got)
	}
	g.mustRun(t, "mkfifo fifo; mkdir dir")
	for path, status := range map[string]int{"fifo": 400, "dir": 400, "/dev/null": 400, "": 400, "z/below": 400} {
		resp, body := g.ours(t, "POST", "/files?path="+path, strings.NewReader("x"), map[string]string{"Content-Type": "application/octet-stream"})
		if resp.StatusCode != status {
			t.Errorf("upload to %q: %d %s", path, resp.StatusCode, body)
		}
	}
	resp, body = g.ours(t, "POST", "/files/compose", strings.NewReader(`{"source_paths":["z","x/one"],"destination":"joined"}`), map[string]string{"Content-Type": "application/json"})
	if got, _ := os.ReadFile(g.cfg.Workspace + "/joined"); resp.StatusCode != 200 || string(got) != "unzippedin one" {
		t.Errorf("%d %s %q", resp.StatusCode, body, got)
	}
}

func TestMetadata(t *testing.T) {
	g := startGuest(t, guestOptions{})
	m := g.cfg.Workspace + "/m"
	octet := map[string]string{"Content-Type": "application/octet-stream", "X-Metadata-Color": "red", "X-Metadata-Size": "big"}
	resp, body := g.do(t, "POST", "/files?path="+m, strings.NewReader("x"), octet)
	if resp.StatusCode == 400 && strings.Contains(string(body), "does not support metadata") {
		t.Skip("this file system has no user attributes: ", string(body))
	}
	e, err := g.client.Stat(t.Context(), "", m)
	if err != nil || len(e.Metadata) != 2 || e.Metadata["color"] != "red" {
		t.Fatalf("%+v %v", e, err)
	}
	delete(octet, "X-Metadata-Size")
	g.do(t, "POST", "/files?path="+m, strings.NewReader("x"), octet)
	if e, err = g.client.Stat(t.Context(), "", m); err != nil || len(e.Metadata) != 1 {
		t.Fatalf("%+v %v", e, err)
	}
	octet["X-Metadata-Long"] = strings.Repeat("x", 5000)
	if resp, _ := g.do(t, "POST", "/files?path="+m, strings.NewReader("x"), octet); resp.StatusCode != 400 {
		t.Errorf("long metadata: %d", resp.StatusCode)
	}
}

func TestPlainPaths(t *testing.T) {
	g := startGuest(t, guestOptions{})
	if err := g.client.Health(t.Context()); err != nil {
		t.Error(err)
	}
	m, err := g.client.Metrics(t.Context())
	if err != nil || m.Processes < 1 || m.RSS <= 0 || m.DiskTotal <= 0 || m.MemTotal <= 0 {
		t.Errorf("%+v %v", m, err)
	}
	if _, body := g.do(t, "GET", envd.PathEnvs, nil, nil); string(body) != `{"FROM_CONFIG":"yes"}` {
		t.Errorf("%s", body)
	}
	if resp, _ := g.do(t, "GET", "/init", nil, nil); resp.StatusCode != 404 {
		t.Errorf("an unknown path: %d", resp.StatusCode)
	}
	if resp, _ := g.do(t, "GET", envd.ProcStart, nil, nil); resp.StatusCode != 405 {
		t.Errorf("GET of a call: %d", resp.StatusCode)
	}
	if resp, _ := g.do(t, "GET", "/health", nil, map[string]string{"X-Long": strings.Repeat("x", 70<<10)}); resp.StatusCode != 431 {
		t.Errorf("a long header: %d", resp.StatusCode)
	}
}

// TestUploadAside: an upload that breaks off leaves the file that was there, and one that does not
// keeps what the file is: its permissions, its names, the link that leads to it.
func TestUploadAside(t *testing.T) {
	g := startGuest(t, guestOptions{})
	dir := g.cfg.Workspace
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"f": 0o640, "twice": 0o600} {
		if err := errors.Join(os.WriteFile(at(name), []byte("old"), 0o600), os.Chmod(at(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("f", at("link")), os.Symlink("made", at("dangling")), os.Link(at("twice"), at("other"))); err != nil {
		t.Fatal(err)
	}
	aside := envd.Upload{Aside: true}
	cut := io.MultiReader(strings.NewReader(strings.Repeat("new", 100_000)), iotest.ErrReader(errors.New("cut")))
	if err := g.client.Upload(t.Context(), "", "f", aside, cut); err == nil {
		t.Error("a cut upload is no error")
	}
	// The guest sees the end of the connection a little later.
	until(t, "the new file is removed", func() bool { left, _ := filepath.Glob(at(".hortus-*")); return len(left) == 0 })
	if b, err := os.ReadFile(at("f")); err != nil || string(b) != "old" {
		t.Errorf("after a cut: %q, %v", b, err)
	}
	when, mode := time.Date(2020, 2, 2, 2, 2, 2, 5, time.UTC), os.FileMode(0o751)
	for name, how := range map[string]envd.Upload{
		"link": aside, "dangling": aside, "twice": aside, "new/file": {Aside: true, Mode: &mode, ModTime: when}, "plain": {Mode: &mode, ModTime: when},
		"made-link": {Link: "new/file"},
	} {
		body := strings.Repeat("x", 100_000) + strings.Repeat("\x00", 8<<20)
		if how.Link != "" {
			body = ""
		}
		if err := g.client.Upload(t.Context(), "", name, how, strings.NewReader(body)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fi, err := os.Stat(at(name)); how.Link == "" && (err != nil || fi.Size() != 100_000+8<<20 || fi.Sys().(*syscall.Stat_t).Blocks*512 > 4<<20) {
			t.Errorf("%s: %+v, %v", name, fi, err)
		}
		if fi, err := os.Stat(at(name)); how.Mode != nil && (err != nil || fi.Mode() != mode || !fi.ModTime().Equal(when)) {
			t.Errorf("%s: %v, %v, %v", name, fi.Mode(), fi.ModTime(), err)
		}
	}
	if fi, err := os.Lstat(at("link")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", fi, err)
	}
	if fi, err := os.Lstat(at("f")); err != nil || fi.Mode() != 0o640 {
		t.Errorf("the permissions are %v, %v", fi, err)
	}
	if fi, err := os.Stat(at("other")); err != nil || fi.Size() == 3 || fi.Mode() != 0o600 {
		t.Errorf("the other name is another file: %v, %v", fi, err)
	}
	if target, err := os.Readlink(at("made-link")); err != nil || target != "new/file" {
		t.Errorf("%q, %v", target, err)
	}
	for _, query := range []string{"mode=1777", "mode=8", "mode=-1", "mtime=now", "mtime=1969-12-31T23:59:59Z", "mtime=2262-01-01T00:00:00Z", "aside=yes"} {
		resp, body := g.ours(t, "POST", "/files?path=q&"+query, strings.NewReader("x"), map[string]string{"Content-Type": "application/octet-stream"})
		if resp.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, resp.StatusCode, body)
		}
	}
}
