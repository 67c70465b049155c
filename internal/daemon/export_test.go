package daemon

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/backend/jail/export"
	"hortus.dev/test/ocitest"
)

// TestExportTemplate exports a sandbox of a container image that was saved, makes a template of
// the archive, and starts a sandbox from it: it has what the first one had.
func TestExportTemplate(t *testing.T) {
	t.Parallel()
	w := newTownOf(t, Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH")})
	c, err := client.Remote(w.url, w.operator.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	isolated(t, c)
	base := append(ocitest.Programs(t, "cat", "ls", "rm", "mkdir", "ln", "chown", "chmod", "stat", "mkfifo", "readlink"),
		ocitest.Dir("etc"), ocitest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1234:1235::/srv/node:/bin/sh\n"),
		ocitest.Dir("srv"), ocitest.Dir("srv/old"), ocitest.File("srv/old/below", "x"), ocitest.File("srv/gone", "x"), ocitest.File("srv/stays", "stays\n"))
	dir := t.TempDir()
	ocitest.Save(t, dir+"/image.tar", ocitest.Image(t, v1.Config{WorkingDir: "/srv", Env: []string{"PATH=/bin:/usr/bin", "GREETING=hello"}, Cmd: []string{"cat", "stays"}}, ocitest.Layer(t, base...)))
	if _, err := w.s.images.Pull(t.Context(), api.PullImage{Reference: dir + "/image.tar", Name: "first"}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container", Template: "first"})
	if api.KindOf(err) == api.KindUnisolated {
		t.Skipf("this host cannot run container: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const change = `set -e
rm gone; rm -r old; mkdir old; echo new >old/new; ln old/new twin; ln -s /etc/passwd link
echo secret >/etc/secret; chmod 640 /etc/secret; mkfifo pipe; mkdir -p /opt/tool/bin; echo tool >/opt/tool/bin/tool
`
	if out, err := sh(t, s, change); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	owned := os.Geteuid() == 0
	if owned {
		if out, err := sh(t, s, "chown 1234:1235 /etc/secret"); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	snap, err := s.Snapshot(t.Context(), api.CreateSnapshot{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	const look = `ls /srv /srv/old; cat stays twin; readlink link; cat /opt/tool/bin/tool; stat -c '%a %h' old/new; stat -c '%a %u %g' /etc/secret; echo $GREETING; pwd`
	want, err := sh(t, s, look)
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	want = strings.Replace(want, "pipe\n", "", 1) // an image has none
	if _, err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}

	var one, two bytes.Buffer
	if err := errors.Join(c.Templates.Export(t.Context(), "second", &one), c.Templates.Export(t.Context(), string(snap.ID), &two)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same template is exported differently")
	}
	if err := os.WriteFile(dir+"/exported.tar", one.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := w.s.images.Pull(t.Context(), api.PullImage{Reference: dir + "/exported.tar", Name: "third"}, nil)
	if err != nil || strings.Join(img.Command, " ") != "cat stays" {
		t.Fatalf("%+v, %v", img, err)
	}
	again, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container", Template: "third"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill(t.Context())
	if got, err := sh(t, again, look); err != nil || got != want {
		t.Errorf("after the export: %v\n%s\nbefore:\n%s", err, got, want)
	}
	if owned && !strings.Contains(want, "640 1234 1235\n") {
		t.Errorf("no owner: %s", want)
	}
	// An export writes nothing into the data directory.
	for _, pattern := range []string{"*export*", "*/*export*", "*/new-*", "*/.new-*"} {
		if left, err := filepath.Glob(w.s.dir.Path(pattern)); len(left) > 0 || err != nil {
			t.Errorf("left: %q, %v", left, err)
		}
	}
	// What cannot be exported is refused before the first byte.
	if status, text := w.call(http.MethodGet, "/v1/templates/host/export", "", "X-API-KEY", w.operator.Secret); status < 400 || !strings.Contains(text, "from-image") {
		t.Errorf("host: %d %s", status, text)
	}
	if status, text := w.call(http.MethodGet, "/v1/templates/second/export", "", "X-API-KEY", w.alice.Secret); status != http.StatusForbidden {
		t.Errorf("a user: %d %s", status, text)
	}
}

// TestExportHost refuses a saved sandbox of the host template.
func TestExportHost(t *testing.T) {
	t.Parallel()
	w := newTownOf(t, Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH")})
	c, err := client.Remote(w.url, w.operator.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	isolated(t, c)
	s, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container"})
	if api.KindOf(err) == api.KindUnisolated {
		t.Skipf("this host cannot run container: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill(t.Context())
	if _, err := s.Snapshot(t.Context(), api.CreateSnapshot{Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Templates.Export(t.Context(), "mine", &out); api.KindOf(err) != api.KindUnsupported || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	err = export.Templates{Images: w.s.images, Snapshots: w.s.snapshots}.ExportSnapshot(t.Context(), api.Snapshot{Kind: api.SnapshotMemory, Name: "warm"}, &out)
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(api.HintOf(err), "--isolation container") || out.Len() > 0 {
		t.Errorf("memory: %v", err)
	}
}
