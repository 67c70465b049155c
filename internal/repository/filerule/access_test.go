package filerule

import (
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestAccess(t *testing.T) {
	const tree = "a.go a_test.go go.mod src/b.go src/b_test.go src/deep/c.go src/vendor/v.go docs/x.md"
	for _, c := range []struct{ read, write, want string }{
		{"", "", ""},
		{"nothing", "", ""},
		{"/go.mod", "", "go.mod:r"},
		{"docs/", "", "docs:r"},
		{"docs/**", "", "docs:r"},
		{"**", "", ".:r .git:w"},
		{"*_test.go", "", "a_test.go:r src:w src/b_test.go:r"},
		{"/src/deep/c.go", "", "src:w src/deep:w src/deep/c.go:r"},
		{"/src/ !/src/deep/", "", "src:r src/deep:w"},
		{"", "src/**", ".:r .git:w src:w"},
		{"", "*.go", ".:r .git:w a.go:w a_test.go:w src/b.go:w src/b_test.go:w src/deep/c.go:w src/vendor/v.go:w"},
		{"src/vendor/", "src/**", ".:r .git:w src:w src/vendor:r"},
		{"/src/deep/c.go", "src/**", ".:r .git:w src:w src/deep:w src/deep/c.go:r"},
	} {
		p, err := Compile(api.FilePolicy{ReadOnly: strings.Fields(c.read), Writable: strings.Fields(c.write)})
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.Access(strings.Fields(tree))
		var got []string
		for _, a := range list {
			got = append(got, fmt.Sprintf("%s:%c", a.Path, "wr"[map[bool]int{true: 1}[a.ReadOnly]]))
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("read-only %q, writable %q: %s, %v; want %s", c.read, c.write, got, err, c.want)
		}
	}
	var many []string
	for i := range MaxAccess + 1 {
		many = append(many, fmt.Sprintf("f%d.txt", i))
	}
	p, err := Compile(api.FilePolicy{ReadOnly: []string{"*.txt"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Access(many); api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "" {
		t.Errorf("too many: %v", err)
	}
}

// TestFix: the directories above one that cannot be changed are mount points, once each.
func TestFix(t *testing.T) {
	for _, c := range []struct{ have, want string }{
		{"", ".git:w .git/x:w .git/x/y:r"},
		{"docs:r", "docs:r .git:w .git/x:w .git/x/y:r"},
		{".:r .git:w src:w", ".:r .git:w src:w .git/x:w .git/x/y:r"},
	} {
		var list []Access
		for _, f := range strings.Fields(c.have) {
			p, how, _ := strings.Cut(f, ":")
			list = append(list, Access{p, how == "r"})
		}
		var got []string
		for _, a := range Fix(list, ".git/x/y") {
			got = append(got, fmt.Sprintf("%s:%c", a.Path, "wr"[map[bool]int{true: 1}[a.ReadOnly]]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.have, got, c.want)
		}
	}
}
