package gate_test

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/internal/task/gate"
)

// TestGoTests: what a gate compiles is seen through targets and scripts, and nothing of a repository gets into it as it stands.
func TestGoTests(t *testing.T) {
	for _, c := range []struct {
		name, command string
		files         map[string]string
		want          string
	}{
		{"no test", "make lint", map[string]string{"Makefile": "lint:\n\tgo vet ./...\n"}, ""},
		{"plain", "go test ./...", nil, "go test"},
		{"flags that change no build", "go test -v -count=1 -short -run 'A|B' -timeout 5m ./...", nil, "go test"},
		{"each that does", "go test --race -v -trimpath -msan -asan ./...", nil, "go test -asan -msan -race -trimpath"},
		{"values", "go test -tags a,b -covermode=atomic -coverprofile c.out -coverpkg=./... -gcflags=all=-l ./...", nil, "go test -cover -covermode=atomic -coverpkg=./... -gcflags=all=-l -tags=a,b"},
		{"a variable", "CI=1 CGO_ENABLED=0 go test ./...", nil, "CGO_ENABLED=0 go test"},
		{"two", "go test ./... && (cd a && env CGO_ENABLED=1 go test -race .) && go test -v ./b", nil, "go test, CGO_ENABLED=1 go test -race"},
		{"arguments of the test", "go test ./... -args -race", nil, "go test"},
		{"a target that calls make", "make test", map[string]string{"Makefile": "test:\n\tgo clean -testcache && $(MAKE) one && $(MAKE) two\none:\n\tgo test -race -v .\ntwo:\n\tgo test -race -v ./two\n"}, "go test -race"},
		{"variables of make", "make check", map[string]string{"Makefile": "GO ?= go\nFLAGS = -race -tags=x\ncheck: unit\nunit:\n\t@$(GO) test $(FLAGS) ./...\n"}, "go test -race -tags=x"},
		{"a target that calls a script", "make test", map[string]string{"Makefile": "test:\n\tnpm run go\n", "package.json": `{"scripts":{"go":"go test -race ./..."}}`}, "go test -race"},
		{"a script", "npm test --silent", map[string]string{"package.json": `{"scripts":{"test":"npm run a","a":"go test -tags=x ./..."}}`}, "go test -tags=x"},
		{"gotestsum", "gotestsum --format dots -- -race ./...", nil, "go test -race"},
		{"what is no plain value", "go test -tags '$(touch x)' -gcflags='a;b' -tags=\"`id`\" -race ./...", nil, "go test -race"},
		{"a variable that is no plain value", "CGO_ENABLED='1;id' GOFLAGS=-toolexec=./x go test ./...", nil, "go test"},
		{"many", "go test -tags=a; go test -tags=b; go test -tags=c; go test -tags=d", nil, "go test -tags=a, go test -tags=b, go test -tags=c"},
	} {
		tree := gate.Tree{Read: func(p string) []byte { return []byte(c.files[p]) }}
		for p := range c.files {
			tree.Paths = append(tree.Paths, p)
		}
		slices.Sort(tree.Paths)
		if got := strings.Join(gate.GoTests(tree, c.command), ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestGoTestsBounded: a Makefile whose lines call a script of many commands gives no more work than either.
func TestGoTestsBounded(t *testing.T) {
	files := map[string]string{
		"Makefile":     "test:\n" + strings.Repeat("\tnpm test\n", 5000),
		"package.json": `{"scripts":{"test":"` + strings.Repeat("go test;", 5000) + `"}}`,
	}
	tree := gate.Tree{Paths: []string{"Makefile", "package.json"}, Read: func(p string) []byte { return []byte(files[p]) }}
	if got := gate.GoTests(tree, "make test"); !slices.Equal(got, []string{"go test"}) {
		t.Errorf("%q", got)
	}
}
