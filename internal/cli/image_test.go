package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"hortus.dev/api"
	"hortus.dev/internal/cli/completion"
	"hortus.dev/internal/server/access"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/test/ocitest"
)

// noSnapshots is a daemon without snapshots, for the server of images.
type noSnapshots struct{ httpapi.Snapshots }

func (noSnapshots) FindSnapshot(_ context.Context, name string) (api.SnapshotID, error) {
	return "", api.Errorf(api.KindNotFound, "unknown template %q", name)
}

// imageServer serves images on behalf of the operator, or of the user that a variable names.
func (g *garden) imageServer() http.Handler {
	cfg := httpapi.Config{Snapshots: noSnapshots{}, Templates: g.templates}
	if g.images != nil {
		cfg.Images = g.images
	}
	server := httpapi.New(cfg)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := api.Operator()
		if g.user {
			p = api.Principal{Role: api.RoleUser, Account: "alice", Key: "k"}
		}
		server.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
	})
}

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

// shellImage is an image with a command, or without one.
func shellImage(t *testing.T, command ...string) v1.Image {
	t.Helper()
	return ocitest.Image(t, v1.Config{Cmd: command, Env: []string{"MODE=test"}, User: "node", WorkingDir: "/srv"}, ocitest.Layer(t,
		ocitest.Dir("bin/"), ocitest.Program("bin/sh", "program"), ocitest.Dir("etc/"), ocitest.File("etc/passwd", "node:x:70:71::/srv:/bin/sh\n")))
}

func TestTemplatesOfImages(t *testing.T) {
	t.Chdir(t.TempDir())
	registry := ocitest.NewRegistry(t)
	reference := registry.Push(t, "library/shell:1", shellImage(t, "/bin/sh", "-i"))
	ocitest.Save(t, "shell.tar", shellImage(t))
	ocitest.Layout(t, "layout", ocitest.Index(t, shellImage(t)))
	if err := os.Mkdir("python", 0o700); err != nil { // no layout
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	g := &garden{images: openImages(t)}
	connect := g.start(t)
	for _, c := range []struct {
		args     string
		code     int
		out, err []string
	}{
		{"template create web --from-image " + reference, 0, []string{"web\n"}, []string{"[template web] resolve " + reference, "template web is ready after", "user node", `command ["/bin/sh" "-i"]`, "3 layers"}},
		{"template create tar --from-image shell.tar", 0, []string{"tar\n"}, []string{"no command", "image " + here + "/shell.tar"}},
		{"template create dir --from-image ./layout", 0, []string{"dir\n"}, nil},
		{"template create dir --from-image layout", 0, []string{"dir\n"}, nil},
		{"template create no --from-image ./nosuch.tar", 1, nil, []string{"nosuch.tar"}},
		{"template create no --from-image " + registry.Host + "/library/nosuch:1", 1, nil, []string{"nosuch"}},
		{"template create No --from-image shell.tar", 2, nil, []string{"not a valid template name"}},
		{"sandbox create --image " + reference, 0, []string{boxOne}, []string{"[image " + reference + "] resolve"}},
		{"template ls", 0, []string{"web", "image " + reference, "any", "image " + here[:min(len(here), 50)], "(no name)", snapPy}, nil},
		{"template show web", 0, []string{"reference", reference, "sha256:", "linux/", "working directory", "/srv", "node", "MODE", `["/bin/sh" "-i"]`}, nil},
		{"template show " + reference, 0, []string{reference}, nil},
		{"template show nothing", 1, nil, []string{"next: to list them: hortus template ls"}},
		{"template show docker.io/library/nothing:1", 1, nil, []string{"is not on this machine"}},
		{"template rm tar " + reference + " py", 0, nil, []string{"image " + here + "/shell.tar is removed", "image " + reference + " is removed", "template py is removed"}},
		{"template rm tar", 1, nil, []string{"next: to list them: hortus template ls"}},
	} {
		code, stdout, stderr := run(t, connect, "", nil, strings.Fields(c.args)...)
		if code != c.code || len(c.out) == 0 && stdout != "" {
			t.Errorf("%s: code %d, want %d; stdout %q, stderr %q", c.args, code, c.code, stdout, stderr)
		}
		says(t, c.args, stdout, c.out...)
		says(t, c.args, stderr, c.err...)
	}
	code, stdout, _ := run(t, connect, "", nil, "template", "create", "doc", "--from-image", "shell.tar", "--json")
	var img api.Image
	if err := json.Unmarshal([]byte(stdout), &img); code != 0 || err != nil || img.ID != "doc" || img.User != "node" {
		t.Errorf("code %d, %s", code, stdout)
	}
	for line, want := range map[string][]string{
		"sandbox create --template d": {"dir", "doc"}, "template show w": {"web"}, "template rm d": {"dir", "doc"}, "sandbox create --image " + here: {here + "/layout", here + "/shell.tar", ":files"},
	} {
		_, stdout, _ := run(t, connect, "", nil, append([]string{completion.Name, "--"}, strings.Fields(line)...)...)
		for _, w := range want {
			if !strings.Contains("\n"+strings.ReplaceAll(stdout, "\t", "\n"), "\n"+w+"\n") {
				t.Errorf("%s: no %q in %q", line, w, stdout)
			}
		}
	}
}

// TestImageOfSandboxes: every command that creates sandboxes starts them from the image.
func TestImageOfSandboxes(t *testing.T) {
	p := newPerson(t)
	registry := ocitest.NewRegistry(t)
	reference := registry.Push(t, "library/shell:1", shellImage(t))
	g := &garden{images: openImages(t)}
	connect := g.start(t)
	program := filepath.Join(t.TempDir(), "program.json")
	if err := os.WriteFile(program, []byte(`{"files":[{"path":"a.py","content":"1"}],"run":"python3 a.py"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var id string
	for _, args := range [][]string{
		{"sandbox", "create"},
		{"sandbox", "run", "--", "true"},
		{"run", "print 1", "-d"},
		{"role", "execute", program},
		{"task", "--repo", p.root, "fix it now", "-d"},
		{"repo", "prepare", p.root},
		{"repo", "prepare", p.root, p.root},
	} {
		// The fake daemon has no more than the request: the rest of the command fails.
		at := len(args)
		if i := strings.Index(strings.Join(args, " "), " -- "); i >= 0 {
			at = 2
		}
		line := append(append(append([]string{}, args[:at]...), "--image", reference), args[at:]...)
		path := "/v1/tasks"
		if args[0] == "sandbox" {
			path = "/v1/sandboxes"
		}
		g.mu.Lock()
		delete(g.asked, path)
		g.mu.Unlock()
		_, _, stderr := runIn(t, map[string]string{"HORTUS_TEMPLATE": "py"}, connect, "", nil, line...)
		template := ""
		if path == "/v1/tasks" {
			template = was[api.CreateTask](t, g, path).Sandbox.Template
		} else {
			template = was[api.CreateSandbox](t, g, path).Template
		}
		if id == "" {
			id = template
		}
		if template != id || len(id) != 12 {
			t.Errorf("%q: template %q, want %q; %s", line, template, id, stderr)
		}
	}
	before := registry.Requests.Load()
	if code, _, stderr := run(t, connect, "", nil, "sandbox", "create", "--image", reference); code != 0 || registry.Requests.Load() != before || strings.Contains(stderr, "resolve") {
		t.Errorf("an image that is there: code %d, %d requests, %s", code, registry.Requests.Load()-before, stderr)
	}
	if code, _, stderr := run(t, connect, "", nil, "sandbox", "create", "--image", reference, "--pull"); code != 0 || registry.Requests.Load() == before {
		t.Errorf("--pull: code %d, %s", code, stderr)
	}
	// The command line comes before the environment, either way.
	if code, _, stderr := runIn(t, map[string]string{"HORTUS_IMAGE": reference}, connect, "", nil, "sandbox", "create", "--template", "py"); code != 0 || was[api.CreateSandbox](t, g, "/v1/sandboxes").Template != "py" {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := runIn(t, map[string]string{"HORTUS_IMAGE": reference, "HORTUS_TEMPLATE": "py"}, connect, "", nil, "sandbox", "create"); code != 2 || !strings.Contains(stderr, "HORTUS_IMAGE") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, connect, "", nil, "sandbox", "run", "--image", reference); code != 2 || !strings.Contains(stderr, "has no command, and none was given") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if code, _, stderr := run(t, connect, "", nil, "sandbox", "create", "--image", "UPPER"); code != 2 || !strings.Contains(stderr, "not a valid image reference") {
		t.Errorf("code %d, %s", code, stderr)
	}
	// A user's key uses what is there, and pulls nothing.
	g.user = true
	if code, _, stderr := run(t, connect, "", nil, "sandbox", "create", "--image", reference); code != 0 || was[api.CreateSandbox](t, g, "/v1/sandboxes").Template != id {
		t.Errorf("code %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"--image", reference, "--pull"}, {"--image", "python:3.12"}, {"--image", "web"}} {
		if code, _, stderr := run(t, connect, "", nil, append([]string{"sandbox", "create"}, args...)...); code != 1 || !strings.Contains(stderr, "pulling an image is allowed for the operator only") && !strings.Contains(stderr, "this is allowed for the operator only") {
			t.Errorf("%q: code %d, %s", args, code, stderr)
		}
	}
}

// TestImageOfAnotherMachine: its daemon cannot read a path of this machine.
func TestImageOfAnotherMachine(t *testing.T) {
	for _, args := range [][]string{{"sandbox", "create", "--image", "./a.tar"}, {"template", "create", "a", "--from-image", "/srv/a.tar"}, {"run", "print 1", "--image", "../a.tar"}} {
		code, _, stderr := runIn(t, map[string]string{"HORTUS_API_KEY": "k"}, nil, "", nil, append([]string{"--host", "http://127.0.0.1:1"}, args...)...)
		if code != 2 || !strings.Contains(stderr, "is a path on this machine, which the daemon at http://127.0.0.1:1 cannot read") || !strings.Contains(stderr, "push the image to a registry") {
			t.Errorf("%q: code %d, %s", args, code, stderr)
		}
	}
}

// TestInterruptedPull: Ctrl-C ends a pull, and there is no image.
func TestInterruptedPull(t *testing.T) {
	for _, args := range [][]string{{"template", "create", "web", "--from-image"}, {"sandbox", "run", "--image"}, {"run", "print 1", "--image"}, {"repo", "prepare", newPerson(t).root, "--image"}} {
		registry := ocitest.NewRegistry(t)
		reference := registry.Push(t, "library/shell:1", shellImage(t, "/bin/sh"))
		signals := make(chan os.Signal, 1)
		registry.Hook = func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case signals <- os.Interrupt:
			default:
			}
			<-r.Context().Done()
			return true
		}
		g := &garden{images: openImages(t)}
		code, stdout, stderr := run(t, g.start(t), "", signals, append(args, reference)...)
		if code != 130 || stdout != "" {
			t.Errorf("%q: code %d, %q, %s", args, code, stdout, stderr)
		}
		if list, err := g.images.List(api.WithPrincipal(t.Context(), api.Operator())); err != nil || len(list) != 0 {
			t.Errorf("%q: %+v, %v", args, list, err)
		}
	}
}

// TestImageOfTheFile: sandbox.image is a default, below the environment and the command line, and
// what lies in the directory of the command does not change it.
func TestImageOfTheFile(t *testing.T) {
	registry := ocitest.NewRegistry(t)
	reference, other := registry.Push(t, "library/shell:1", shellImage(t)), registry.Push(t, "library/other:1", shellImage(t, "/bin/other"))
	g := &garden{images: openImages(t)}
	connect := g.start(t)
	file := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte("[sandbox]\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	create := func(vars map[string]string, args ...string) (int, string, string) {
		code, _, stderr := runIn(t, vars, connect, "", nil, append([]string{"sandbox", "create"}, args...)...)
		if code != 0 {
			return code, "", stderr
		}
		return code, was[api.CreateSandbox](t, g, "/v1/sandboxes").Template, stderr
	}
	image, template, both := file("image = '"+reference+"'"), file("template = 'py'"), file("image = '"+reference+"'", "template = 'py'")
	_, first, _ := create(nil, "--image", reference)
	_, second, _ := create(nil, "--image", other)
	if len(first) != 12 || len(second) != 12 || first == second {
		t.Fatalf("%q, %q", first, second)
	}
	for _, c := range []struct {
		name string
		vars map[string]string
		args []string
		want string
	}{
		{"the file", nil, []string{"--config", image}, first},
		{"an image of the environment", map[string]string{"HORTUS_IMAGE": other}, []string{"--config", image}, second},
		{"a template of the environment", map[string]string{"HORTUS_TEMPLATE": "web"}, []string{"--config", image}, "web"},
		{"an image of the environment, a template of the file", map[string]string{"HORTUS_IMAGE": other}, []string{"--config", template}, second},
		{"an image on the command line", map[string]string{"HORTUS_TEMPLATE": "web"}, []string{"--config", image, "--image", other}, second},
		{"a template on the command line", map[string]string{"HORTUS_IMAGE": other}, []string{"--config", image, "--template", "web"}, "web"},
	} {
		if code, got, stderr := create(c.vars, c.args...); code != 0 || got != c.want {
			t.Errorf("%s: code %d, template %q, want %q; %s", c.name, code, got, c.want, stderr)
		}
	}
	if code, _, stderr := create(nil, "--config", both); code != 2 || !strings.Contains(stderr, "sandbox.image, sandbox.template") {
		t.Errorf("both in the file: code %d, %s", code, stderr)
	}
	for _, path := range []string{"./a.tar", "../a.tar", "."} {
		if code, _, stderr := create(nil, "--config", file("image = '"+path+"'")); code != 2 || !strings.Contains(stderr, "sandbox.image: \""+path+"\" is a relative path") {
			t.Errorf("%s: code %d, %s", path, code, stderr)
		}
	}
	// A directory that is a layout: the flag means it, the file means a registry.
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("shell", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("shell", "oci-layout"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	remote := map[string]string{"HORTUS_API_KEY": "k", "HORTUS_HOST": "http://127.0.0.1:1"}
	is := "is a path on this machine"
	if _, _, stderr := runIn(t, remote, nil, "", nil, "sandbox", "create", "--image", "shell"); !strings.Contains(stderr, is) {
		t.Errorf("the control: %s", stderr)
	}
	if _, _, stderr := runIn(t, remote, nil, "", nil, "sandbox", "create", "--config", file("image = 'shell'")); strings.Contains(stderr, is) || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("a name in the file is a path: %s", stderr)
	}
	if code, stdout, stderr := run(t, connect, "", nil, "config", "show", "--config", image); code != 0 || !strings.Contains(stdout, "sandbox.image") || !strings.Contains(stdout, reference) {
		t.Errorf("code %d, %s, %s", code, stdout, stderr)
	}
}
