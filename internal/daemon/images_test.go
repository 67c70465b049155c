package daemon

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/storage/oci/ocitest"
	testtools "hortus.dev/test/tools"
)

// TestImages starts sandboxes from a container image with whiteouts and more layers than a
// parameter of a mount holds, and looks at what its settings become.
func TestImages(t *testing.T) {
	t.Parallel()
	w := newTownOf(t, Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Runsc: filepath.Join(testtools.Dir(t), testtools.Runsc)})
	c, err := client.Remote(w.url, w.operator.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	isolated(t, c)
	base := ocitest.Programs(t, "cat", "ls", "id", "touch", "stat", "chown")
	base = append(base, ocitest.Dir("etc"), ocitest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1234:1235::/srv/node:/bin/sh\n"),
		ocitest.File("etc/group", "root:x:0:\nnode:x:1235:\nvideo:x:44:node\n"),
		ocitest.Dir("srv"), ocitest.Dir("data"), ocitest.File("data/gone", "x"), ocitest.File("data/stays", "below\n"),
		ocitest.Dir("opaque"), ocitest.File("opaque/hidden", "x"),
		ocitest.Program("bin/setuid", "x").With(func(h *tar.Header) { h.Mode = 0o4755 }),
		ocitest.Hard("data/hard", "data/stays"),
		ocitest.Dir("long"), ocitest.File("long/"+strings.Repeat("n", 255), "long\n"))
	layers := []v1.Layer{ocitest.Layer(t, base...)}
	layers = append(layers, ocitest.Layer(t, append(ocitest.Owned(1234, 1235, ocitest.Dir("srv/node"), ocitest.File("srv/node/app", "app\n")),
		ocitest.Dir("data"), ocitest.File("data/.wh.gone", ""), ocitest.Dir("opaque"), ocitest.File("opaque/.wh..wh..opq", ""), ocitest.File("opaque/new", "new\n"))...))
	for i := range 100 {
		layers = append(layers, ocitest.Layer(t, ocitest.Dir("many"), ocitest.File(fmt.Sprintf("many/%03d", i), "")))
	}
	img := ocitest.Image(t, v1.Config{
		User: "node", WorkingDir: "/srv/node/work", Env: []string{"PATH=/bin:/usr/bin", "GREETING=hello"}, Cmd: []string{"cat", "app"},
	}, layers...)
	archive := filepath.Join(t.TempDir(), "image.tar")
	ocitest.Save(t, archive, img)
	pulled, err := w.s.images.Pull(t.Context(), api.PullImage{Reference: archive, Name: "node"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			s, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: isolation, Template: pulled.ID, Env: map[string]string{"OWN": "yes"}})
			if api.KindOf(err) == api.KindUnisolated {
				t.Skipf("this host cannot run %s: %v", isolation, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Kill(t.Context())
			for script, want := range map[string]string{
				"id":                                "uid=1234(node) gid=1235(node) groups=1235(node),44(video)\n",
				"pwd":                               "/srv/node/work\n",
				"echo $GREETING $OWN $HOME $USER":   "hello yes /srv/node node\n",
				"cat ../app /data/stays /data/hard": "app\nbelow\nbelow\n",
				"ls /data /opaque":                  "/data:\nhard\nstays\n\n/opaque:\nnew\n",
				"ls /many | { n=0; while read l; do n=$((n+1)); done; echo $n; }": "100\n",
				"stat -c %a /bin/setuid": "755\n",
				"cat /long/*":            "long\n",
				"touch /srv/node/x && stat -c %U /srv/node/x":    "node\n",
				"touch /data/x 2>/dev/null || echo no":           "no\n",
				"test -e /usr/bin/python3 || echo its own files": "its own files\n",
			} {
				if out, err := sh(t, s, script); err != nil || out != want {
					t.Errorf("%s: %q, %v; want %q", script, out, err, want)
				}
			}
		})
	}
}
