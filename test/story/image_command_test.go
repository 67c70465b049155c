package story

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/test/ocitest"
	"hortus.dev/test/tier"
)

// TestImageCommand: without a command, the entrypoint of an image runs with its arguments. A
// command that is given runs itself. Both are so after an export and an import.
func TestImageCommand(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.opens("container", "sh")
	files := append(ocitest.Programs(t, "cat"), ocitest.File("one", "one\n"), ocitest.File("two", "two\n"), ocitest.File("cat", "a file\n"))
	archive := filepath.Join(t.TempDir(), "image.tar")
	ocitest.Save(t, archive, ocitest.Image(t, v1.Config{
		Entrypoint: []string{"cat", "--"}, Cmd: []string{"/one", "/two"}, Env: []string{"PATH=/bin:/usr/bin"}, WorkingDir: "/",
		Labels: map[string]string{"org.example.kept": "yes"},
	}, ocitest.Layer(t, files...)))
	exported := filepath.Join(t.TempDir(), "exported.tar")
	for _, from := range []string{archive, exported} {
		for _, c := range []struct {
			args []string
			want string
		}{
			{nil, "one\ntwo\n"},
			{[]string{"--", "cat", "/two"}, "two\n"}, // below the entrypoint it would show the file cat too
		} {
			if got := g.must(append([]string{"sandbox", "run", "--isolation", "container", "--image", from}, c.args...)...); got != c.want {
				t.Errorf("%s %q: %q, want %q", filepath.Base(from), c.args, got, c.want)
			}
		}
		name := strings.TrimSuffix(filepath.Base(from), ".tar")
		g.must("template", "create", name, "--from-image", from)
		img := decode[api.Image](t, g.must("template", "show", name, "--json"))
		if strings.Join(img.Entrypoint, " ") != "cat --" || strings.Join(img.Command, " ") != "cat -- /one /two" {
			t.Errorf("%s: entrypoint %q, command %q", name, img.Entrypoint, img.Command)
		}
		if from == archive {
			g.must("template", "export", name, exported)
		}
	}
}
