package http_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/test/ocitest"
)

// openImages opens a store of images behind its guard.
func openImages(t *testing.T) *access.Images {
	t.Helper()
	layers, err := layer.Open(filepath.Join(t.TempDir(), "layers"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(layers.Close)
	s, err := oci.Open(oci.Config{Dir: filepath.Join(t.TempDir(), "images"), Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	return access.NewImages(s)
}

func shell(t *testing.T) v1.Image {
	t.Helper()
	return ocitest.Image(t, v1.Config{Cmd: []string{"/bin/sh"}, Env: []string{"MODE=test"}}, ocitest.Layer(t, ocitest.Dir("bin/"), ocitest.Program("bin/sh", "program")))
}

func TestImageCalls(t *testing.T) {
	ctx := t.Context()
	registry := ocitest.NewRegistry(t)
	reference := registry.Push(t, "library/shell:1", shell(t))
	archive := filepath.Join(t.TempDir(), "shell.tar")
	ocitest.Save(t, archive, shell(t))

	f := &fakes{images: openImages(t), saves: newSaves()}
	c, _ := serve(t, f)
	if list, err := c.Images.List(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	var steps []string
	plain, err := c.Images.Pull(ctx, api.PullImage{Reference: reference}, func(step string) { steps = append(steps, step) })
	if err != nil || plain.Reference != reference || len(plain.ID) != 12 || plain.Name != "" || !slices.Contains(plain.Env, "MODE") {
		t.Fatalf("%+v, %v", plain, err)
	}
	if len(steps) < 2 || !strings.Contains(steps[0], reference) {
		t.Errorf("steps %q", steps)
	}
	before := registry.Requests.Load()
	if again, err := c.Images.Pull(ctx, api.PullImage{Reference: reference}, nil); err != nil || again.ID != plain.ID || registry.Requests.Load() != before {
		t.Errorf("again: %+v, %v, %d requests", again, err, registry.Requests.Load()-before)
	}
	named, err := c.Images.Pull(ctx, api.PullImage{Reference: archive, Name: "shell"}, nil)
	if err != nil || named.ID != "shell" || named.Reference != archive {
		t.Fatalf("%+v, %v", named, err)
	}
	if list, err := c.Images.List(ctx); err != nil || len(list) != 2 || list[0].ID != named.ID || list[1].ID != plain.ID {
		t.Errorf("%+v, %v", list, err)
	}
	for name, want := range map[string]string{reference: plain.ID, plain.ID: plain.ID, "shell": "shell"} {
		if got, err := c.Images.Get(ctx, name); err != nil || got.ID != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := c.Images.Get(ctx, "docker.io/library/nosuch:1"); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	// Only those with a name are templates, after the host.
	templates, err := c.Templates.List(ctx)
	if err != nil || len(templates) != 3 || templates[0].Name != api.HostTemplate || templates[1].Name != "shell" || templates[1].Image == nil ||
		templates[1].Image.Digest != named.Digest || templates[1].Snapshot != nil || templates[2].Name != "py" || templates[2].Image != nil {
		t.Errorf("%+v, %v", templates, err)
	}
	for _, name := range []string{reference, "shell"} {
		if _, err := c.Images.Remove(ctx, name); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
		if _, err := c.Images.Remove(ctx, name); api.KindOf(err) != api.KindNotFound {
			t.Errorf("remove %s twice: %v", name, err)
		}
	}
}

// TestImagePullFails: an error before the first step is the whole answer, one after it is the
// last line.
func TestImagePullFails(t *testing.T) {
	registry := ocitest.NewRegistry(t)
	reference := registry.Push(t, "library/shell:1", shell(t))
	c, path := serve(t, &fakes{images: openImages(t), saves: newSaves()})
	for _, tt := range []struct {
		req   api.PullImage
		kind  api.Kind
		steps bool
	}{
		{api.PullImage{}, api.KindInvalid, false},
		{api.PullImage{Reference: "UPPER CASE"}, api.KindInvalid, false},
		{api.PullImage{Reference: reference, Name: "No/Name"}, api.KindInvalid, false},
		{api.PullImage{Reference: reference, Name: "py"}, api.KindExists, false}, // a snapshot's
		{api.PullImage{Reference: registry.Host + "/library/nosuch:1"}, api.KindNotFound, true},
		{api.PullImage{Reference: filepath.Join(t.TempDir(), "nosuch.tar")}, api.KindNotFound, true},
	} {
		steps := 0
		if _, err := c.Images.Pull(t.Context(), tt.req, func(string) { steps++ }); api.KindOf(err) != tt.kind || (steps > 0) != tt.steps {
			t.Errorf("%+v: %v after %d steps", tt.req, err, steps)
		}
	}
	// As lines: the status is that of the beginning.
	status, text := post(t, path, "/v1/images", `{"reference":"`+registry.Host+`/library/nosuch:1"}`)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var last api.ImageLine
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); status != http.StatusOK || len(lines) < 2 || err != nil || last.Error == nil || last.Error.Kind != api.KindNotFound {
		t.Errorf("%d %s", status, text)
	}
	if status, text := post(t, path, "/v1/images", `{"reference":"a","nosuch":1}`); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
}

// TestImagesOfUsers: a user lists what is there and changes nothing.
func TestImagesOfUsers(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "shell.tar")
	ocitest.Save(t, archive, shell(t))
	c, socket := serve(t, &fakes{images: openImages(t), saves: newSaves()})
	if _, err := c.Images.Pull(t.Context(), api.PullImage{Reference: archive, Name: "shell"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/images", "", http.StatusOK},
		{"GET", "/v1/templates", "", http.StatusOK},
		{"GET", "/v1/images/shell", "", http.StatusOK},
		{"GET", "/v1/images/" + url.PathEscape(archive), "", http.StatusNotFound},
		{"POST", "/v1/images", `{"reference":"python:3.12"}`, http.StatusForbidden},
		{"DELETE", "/v1/images/shell", "", http.StatusForbidden},
		{"GET", "/v1/images/" + strings.Repeat("a", 513), "", http.StatusBadRequest},
		{"GET", "/v1/images/a%0ab", "", http.StatusBadRequest},
		{"GET", "/v1/images/a%ff", "", http.StatusBadRequest},
		{"GET", "/v1/images/a%1b%5b31m", "", http.StatusBadRequest},
		{"GET", "/v1/images/a/b", "", http.StatusNotFound}, // no route
	} {
		resp, text := send(t, socket, tt.method, tt.path, tt.body, "Test-Account", "alice")
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: %s %s", tt.method, tt.path, resp.Status, text)
		}
		if strings.Contains(text, filepath.Dir(archive)) && tt.status == http.StatusOK {
			t.Errorf("%s shows a path of the daemon's machine: %s", tt.path, text)
		}
	}
	if _, err := c.Images.Get(t.Context(), "shell"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "a\nb", "a\xff", strings.Repeat("a", 513)} {
		if _, err := c.Images.Get(t.Context(), name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNoImages: a daemon without a store of images says so, and lists its templates.
func TestNoImages(t *testing.T) {
	c, _ := serve(t, &fakes{saves: newSaves()})
	if _, err := c.Images.List(t.Context()); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
	if _, err := c.Images.Pull(t.Context(), api.PullImage{Reference: "a"}, nil); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
	if _, err := c.Images.Remove(t.Context(), "a"); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
	if list, err := c.Templates.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}
