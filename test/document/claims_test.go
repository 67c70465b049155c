package document_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// TestClaims holds docs/security-claims.md to the tests: each row of a table whose last
// column is "attacked by" names at least one test, and each test that it names exists. A
// cell has groups, separated by ";": a directory, then its tests, separated by ",". A name
// may end with * and may have a subtest behind a slash. The cases of test/sandboxtest and
// test/storetest count by their names, and a story is a file of test/story.
func TestClaims(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/security-claims.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, attacked := 0, false
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			attacked = false
			continue
		}
		last := strings.TrimSpace(cells[len(cells)-2])
		switch {
		case last == "attacked by":
			attacked = true
		case attacked && strings.Trim(last, "-") != "":
			rows++
			for _, complaint := range complaintsAbout(t, last) {
				t.Errorf("docs/security-claims.md:%d: %s", i+1, complaint)
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d claims were found", rows)
	}
}

var (
	comment = regexp.MustCompile(`\([^)]*\)`)
	group   = regexp.MustCompile("^(?:in sandboxes )?`([a-z0-9/]+)` (.+)$")
	story   = regexp.MustCompile("^story `([a-z_]+)`$")
)

// complaintsAbout says what is wrong with the tests of a claim.
func complaintsAbout(t *testing.T, cell string) (complaints []string) {
	t.Helper()
	for part := range strings.SplitSeq(comment.ReplaceAllString(cell, ""), ";") {
		part = strings.TrimSpace(part)
		if m := story.FindStringSubmatch(part); m != nil {
			if _, err := os.Stat(filepath.Join(root, "test/story/testdata", m[1]+".txtar")); err != nil {
				complaints = append(complaints, "no story "+m[1])
			}
			continue
		}
		m := group.FindStringSubmatch(part)
		if m == nil {
			complaints = append(complaints, "not a directory with its tests: "+part)
			continue
		}
		for name := range strings.SplitSeq(m[2], ",") {
			if name = strings.TrimSpace(name); !exists(t, m[1], name) {
				complaints = append(complaints, m[1]+" has no test "+name)
			}
		}
	}
	return complaints
}

// exists reports whether a directory has a test.
func exists(t *testing.T, dir, name string) bool {
	t.Helper()
	files, pattern, suffix := "*_test.go", "", `\(`
	if strings.HasSuffix(name, "*") {
		name, suffix = strings.TrimSuffix(name, "*"), ""
	}
	switch {
	case dir == "test/sandboxtest":
		files = "*.go"
		if suffix != "" {
			suffix = `"`
		}
		pattern = `Name: "` + regexp.QuoteMeta(name) + suffix
	case dir == "test/storetest":
		files, pattern = "*.go", `(?m)^func test`+regexp.QuoteMeta(name)+suffix
	case strings.HasPrefix(name, "Test"), strings.HasPrefix(name, "Fuzz"):
		name, _, _ = strings.Cut(name, "/")
		pattern = `(?m)^func ` + regexp.QuoteMeta(name) + suffix
	default:
		return false
	}
	find := regexp.MustCompile(pattern)
	list, err := filepath.Glob(filepath.Join(root, dir, files))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if find.Match(source) {
			return true
		}
	}
	return false
}

// TestClaimsControl is the control: what is not a test is found.
func TestClaimsControl(t *testing.T) {
	for cell, want := range map[string]int{
		"`test/attack` TestSudo (as root), TestNeighbours*; `test/sandboxtest` egress/*": 0,
		"`test/attack` TestNosuch, TestSudo":                                             1,
		"`test/attack` TestSud":                                                          1,
		"`test/attack`":                                                                  1,
		"`test/sandboxtest` wall/nosuch":                                                 1,
		"`test/storetest` Nosuch":                                                        1,
		"story `nosuch`":                                                                 1,
		"a probe; `test/nosuch` TestSudo":                                                2,
	} {
		if got := complaintsAbout(t, cell); len(got) != want {
			t.Errorf("%s: %q, want %d complaints", cell, got, want)
		}
	}
}
