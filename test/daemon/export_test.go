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
	"hortus.dev/internal/backend/jail/export"
	"hortus.dev/test/ocitest"
	"hortus.dev/test/world"
)

// TestExportTemplate exports a sandbox of a container image that was saved, makes a template of
// the archive, and starts a sandbox from it: it has what the first one had.
func TestExportTemplate(t *testing.T) {
	w := newTown(t)
	w.Isolates(t, "")
	c := w.Client
	base := append(ocitest.Programs(t, "cat", "ls", "rm", "mkdir", "ln", "chown", "chmod", "stat", "mkfifo", "readlink"),
		ocitest.Dir("etc"), ocitest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1234:1235::/srv/node:/bin/sh\n"),
		ocitest.Dir("srv"), ocitest.Dir("srv/old"), ocitest.File("srv/old/below", "x"), ocitest.File("srv/gone", "x"), ocitest.File("srv/stays", "stays\n"))
	dir := t.TempDir()
	pull(t, w.World, "first", ocitest.Image(t, v1.Config{WorkingDir: "/srv", Env: []string{"PATH=/bin:/usr/bin", "GREETING=hello"}, Cmd: []string{"cat", "stays"}}, ocitest.Layer(t, base...)))
	s := world.Sandbox(t, c, api.CreateSandbox{Isolation: "container", Template: "first"})
	const change = `set -e
rm gone; rm -r old; mkdir old; echo new >old/new; ln old/new twin; ln -s /etc/passwd link
echo secret >/etc/secret; chmod 640 /etc/secret; mkfifo pipe; mkdir -p /opt/tool/bin; echo tool >/opt/tool/bin/tool
`
	if out, err := world.Sh(t, s, change); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	owned := os.Geteuid() == 0
	if owned {
		if out, err := world.Sh(t, s, "chown 1234:1235 /etc/secret"); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	snap := world.Must(s.Snapshot(t.Context(), api.CreateSnapshot{Name: "second"}))(t)
	const look = `ls /srv /srv/old; cat stays twin; readlink link; cat /opt/tool/bin/tool; stat -c '%a %h' old/new; stat -c '%a %u %g' /etc/secret; echo $GREETING; pwd`
	want, err := world.Sh(t, s, look)
	if err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	want = strings.Replace(want, "pipe\n", "", 1) // an image has none
	world.Must(s.Kill(t.Context()))(t)

	var one, two bytes.Buffer
	world.OK(t, errors.Join(c.Templates.Export(t.Context(), "second", &one), c.Templates.Export(t.Context(), string(snap.ID), &two)))
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same template is exported differently")
	}
	world.OK(t, os.WriteFile(dir+"/exported.tar", one.Bytes(), 0o600))
	img, err := c.Images.Pull(t.Context(), api.PullImage{Reference: dir + "/exported.tar", Name: "third"}, nil)
	if err != nil || strings.Join(img.Command, " ") != "cat stays" {
		t.Fatalf("%+v, %v", img, err)
	}
	again := world.Sandbox(t, c, api.CreateSandbox{Isolation: "container", Template: "third"})
	if got, err := world.Sh(t, again, look); err != nil || got != want {
		t.Errorf("after the export: %v\n%s\nbefore:\n%s", err, got, want)
	}
	if owned && !strings.Contains(want, "640 1234 1235\n") {
		t.Errorf("no owner: %s", want)
	}
	// An export writes nothing into the data directory.
	for _, pattern := range []string{"*export*", "*/*export*", "*/new-*", "*/.new-*"} {
		if left, err := filepath.Glob(w.Dir.Path(pattern)); len(left) > 0 || err != nil {
			t.Errorf("left: %q, %v", left, err)
		}
	}
	// What cannot be exported is refused before the first byte.
	if status, text := w.Call(http.MethodGet, "/v1/templates/host/export", "", "X-API-KEY", w.operator.Secret); status < 400 || !strings.Contains(text, "from-image") {
		t.Errorf("host: %d %s", status, text)
	}
	if status, text := w.Call(http.MethodGet, "/v1/templates/second/export", "", "X-API-KEY", w.alice.Secret); status != http.StatusForbidden {
		t.Errorf("a user: %d %s", status, text)
	}
	// Neither is a saved sandbox of this machine's own programs, or one with memory.
	mine := world.Sandbox(t, c, api.CreateSandbox{Isolation: "container"})
	world.Must(mine.Snapshot(t.Context(), api.CreateSnapshot{Name: "mine"}))(t)
	var out bytes.Buffer
	if err := c.Templates.Export(t.Context(), "mine", &out); api.KindOf(err) != api.KindUnsupported || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	err = export.Templates{}.ExportSnapshot(t.Context(), api.Snapshot{Kind: api.SnapshotMemory, Name: "warm"}, &out)
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(api.HintOf(err), "--isolation container") || out.Len() > 0 {
		t.Errorf("memory: %v", err)
	}
}
