package buildyaml

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestParse(t *testing.T) {
	r, err := Parse(`# a build
run:
  - echo 1
  - |
    echo 2
    echo 3
from: python:3.12
env:
  PATH: /opt/"x"\n:$PATH
  N: 3
workdir: /app
copy: [a b /c/, d]
user: app
command: [python3, -m, app]
start: serve
ready: curl x
limits: {memory: 2GiB, disk: 1G, cpus: 0.5, processes: 99}
`, "files")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range r.Stages[0].Steps {
		fmt.Fprintf(&got, "%d %s %q %v %s\n", s.Line, s.Op, s.Args, s.Exec, s.Files)
	}
	const want = `3 RUN ["echo 1"] false ` + `
4 RUN ["echo 2\necho 3\n"] false ` + `
9 ENV ["PATH" "\"/opt/\\\"x\\\"\\\\n:$PATH\""] false ` + `
10 ENV ["N" "\"3\""] false ` + `
11 WORKDIR ["/app"] false ` + `
12 COPY ["a" "b" "/c/"] false files
12 COPY ["d" "./"] false files
13 USER ["app"] false ` + `
14 CMD ["python3" "-m" "app"] true ` + `
`
	if got.String() != want {
		t.Errorf("steps:\n%swant:\n%s", got.String(), want)
	}
	limits := api.Limits{CPUs: 0.5, Processes: 99, MemoryBytes: 2 << 30, DiskBytes: 1 << 30}
	if r.Stages[0].From != "python:3.12" || r.Start != "serve" || r.Ready != "curl x" || r.Limits != limits {
		t.Errorf("the request is %+v", r)
	}
}

// TestRefused: an error names the line, and no type of this program.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no from"},
		{"from: host\nrum: [x]", "hortus.yaml: line 2: field rum not found"},
		{"from: host\nlimits: {gpu: 1}", "line 2: field gpu not found"},
		{"from: host\nrun: x", "line 2: cannot unmarshal"},
		{"from: host\nrun: [[x]]", "line 2: cannot unmarshal"},
		{"from: host\nfrom: host", `line 2: mapping key "from" already defined`},
		{"from: host\nworkdir: ''", "line 2: workdir: has no value"},
		{"from: host\nrun: ['']", "line 2: run: has no value"},
		{"from: host\ncopy: [a]", "line 2: copy"},
		{"from: host\ncommand: []", "line 2: command: has no value"},
		{"from: host\nlimits: {memory: much}", `"much" is not a size`},
		{"from: host\nrun: &a [x]\ncommand: *a", "line 3: aliases"},
		{"from: host\n<<: {run: [x]}", "line 2: aliases"},
		{"from: host\nenv: {<<: {a: b}}", "line 2: aliases"},
		{"from: host\n---\nfrom: host", "more than one document"},
		{"from: [", "line 1"},
		{strings.Repeat("#", MaxBytes+1), "the maximum is"},
	} {
		_, err := Parse(c.text, "")
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "buildyaml") {
			t.Errorf("%.80q: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzParse: any text is read or refused, and a step has arguments.
func FuzzParse(f *testing.F) {
	f.Add("from: host\nrun: [x, y]\nenv: {a: b}\ncopy: [c]\n")
	f.Add("from: host\nrun: &a [x]\ncopy: *a\nenv: {<<: {a: b}}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text, "f")
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatal(err)
			}
			return
		}
		for _, s := range r.Stages[0].Steps {
			if len(s.Args) == 0 {
				t.Fatalf("%+v", s)
			}
		}
	})
}
