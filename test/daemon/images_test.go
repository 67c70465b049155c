package daemon

import (
	"archive/tar"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/test/ocitest"
	"hortus.dev/test/world"
)

// TestImages starts sandboxes from a container image with whiteouts and more layers than a
// parameter of a mount holds, and looks at what its settings become.
func TestImages(t *testing.T) {
	w := imageDaemon(t)
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
	pulled := pull(t, w, "node", img)
	inEach(t, w, func(*testing.T, string) string { return pulled.ID }, map[string]string{
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
	})
}

// imageDaemon opens a daemon with every backend.
func imageDaemon(t *testing.T) *world.World {
	t.Helper()
	t.Parallel()
	w := world.Open(t, world.Config{GVisor: true})
	w.Isolates(t, "")
	return w
}

// pull saves an image and makes it available under a name.
func pull(t *testing.T, w *world.World, name string, img v1.Image) api.Image {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	ocitest.Save(t, archive, img)
	pulled := world.Must(w.Client.Images.Pull(t.Context(), api.PullImage{Reference: archive, Name: name}, nil))(t)
	return pulled
}

// inEach has each isolation start a sandbox from a template, and looks at what scripts print there.
func inEach(t *testing.T, w *world.World, template func(t *testing.T, isolation string) string, scripts map[string]string) {
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			s := world.Sandbox(t, w.Client, api.CreateSandbox{Isolation: isolation, Template: template(t, isolation), Env: map[string]string{"OWN": "yes"}})
			for script, want := range scripts {
				if out, err := world.Sh(t, s, script); err != nil || out != want {
					t.Errorf("%s: %q, %v; want %q", script, out, err, want)
				}
			}
		})
	}
}

// TestImageOfLinks: where a sandbox needs directories, the image has links and files. Mounts and
// the sandbox's own files do not follow them.
func TestImageOfLinks(t *testing.T) {
	w := imageDaemon(t)
	layers := []v1.Layer{ocitest.Layer(t, ocitest.Programs(t, "cat", "ls", "stat")...)}
	var links []ocitest.Entry
	for _, name := range []string{"proc", "dev", "sys", "run", "tmp", "workspace", "home", "root", "opt", "srv"} {
		links = append(links, ocitest.Link(name, "/target"))
	}
	links = append(links, ocitest.File("var", "a file"), ocitest.Dir("target"), ocitest.File("target/own", "own\n"),
		ocitest.Dir("etc"), ocitest.Link("etc/hosts", "/target/own"), ocitest.Link("etc/resolv.conf", "../../../../../../target/own"), ocitest.Link("etc/hostname", "/target"))
	layers = append(layers, ocitest.Layer(t, links...))
	pull(t, w, "links", ocitest.Image(t, v1.Config{}, layers...))
	inEach(t, w, func(*testing.T, string) string { return "links" }, map[string]string{
		"ls /target; cat /target/own": "own\nown\n",
		"cat /srv/own":                "own\n", // an ordinary link stays one
		"stat -c %F /proc /dev /sys /run /tmp /workspace /home /root /var": strings.Repeat("directory\n", 9),
		"cat /proc/self/comm":                   "cat\n",
		"ls -d /dev/null /proc/self /home/user": "/dev/null\n/home/user\n/proc/self\n",
		"for f in hosts resolv.conf hostname; do test -h /etc/$f && echo $f is a link; done; cat /etc/hostname /target/own": "sandbox\nown\n",
	})
}

// TestSavedImage saves a sandbox of an image as a template: its sandboxes have the image's user,
// environment and directory, and what was written. Its programs are not taken for this machine's.
func TestSavedImage(t *testing.T) {
	w := imageDaemon(t)
	layer := ocitest.Layer(t, append(ocitest.Programs(t, "cat", "id"), ocitest.Dir("etc"), ocitest.File("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1234:1235::/srv:/bin/sh\n"),
		ocitest.File("etc/group", "root:x:0:\nnode:x:1235:\n"))...)
	pull(t, w, "node", ocitest.Image(t, v1.Config{User: "node", WorkingDir: "/tmp", Env: []string{"PATH=/bin:/usr/bin", "GREETING=hello"}}, layer))
	inEach(t, w, func(t *testing.T, isolation string) string {
		name := "saved-" + isolation
		_, err := w.Client.Templates.Create(t.Context(), api.CreateTemplate{Name: name, From: "node", Isolation: isolation, Run: []string{"echo $GREETING >made"}}, nil)
		if k := api.KindOf(err); k == api.KindUnisolated || k == api.KindUnsupported {
			t.Skipf("this host cannot save with %s: %v", isolation, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		toolchains := map[string]bool{}
		for template, want := range map[string]api.Tool{
			"host": {Name: "git", Path: "/usr/bin/git", Present: true},
			"node": {Name: "git"},
			name:   {Name: "git", Present: true}, // perhaps: it may have been installed before the save
		} {
			req := api.CreateSandbox{Isolation: isolation, Template: template}
			list := world.Must(w.Tools.Of(t.Context(), req))(t)
			i := slices.IndexFunc(list, func(l api.Tool) bool { return l.Name == "git" })
			if i < 0 || list[i].Present != want.Present || (list[i].Path == "") != (want.Path == "") {
				t.Errorf("%s: %+v, want %+v", template, list, want)
			}
			text := world.Must(w.Tools.Toolchain(t.Context(), req))(t)
			toolchains[text] = true
		}
		if len(toolchains) != 3 {
			t.Errorf("three templates have %d toolchains: %v", len(toolchains), toolchains)
		}
		return name
	}, map[string]string{"id -un; pwd; cat made; echo $GREETING $OWN": "node\n/tmp\nhello\nhello yes\n"})
}
