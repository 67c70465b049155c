package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const aKey = "e2b_0123456789abcdef0123456789abcdef01234567"

// TestParseContexts reads files of every kind. What is said about a bad one holds no
// key and no password.
func TestParseContexts(t *testing.T) {
	const aKey = "e2b_0123456789abcdef0123456789abcdef01234567"
	one := func(host, key string) string {
		return fmt.Sprintf(`{"contexts":{"a":{"host":%q,"key":%q}}}`, host, key)
	}
	many := `{"contexts":{`
	for n := range maxContexts + 1 {
		many += fmt.Sprintf(`"c%d":{"host":"http://h","key":"k"},`, n)
	}
	many = strings.TrimSuffix(many, ",") + "}}"
	for name, tt := range map[string]struct{ text, says string }{
		"none":                {`{"contexts":{}}`, ""},
		"nothing":             {"{}\n", ""},
		"one":                 {one("https://hortus.example/below", aKey), ""},
		"in use":              {`{"current":"a","contexts":{"a":{"host":"http://h:1","key":"k"}}}`, ""},
		"in use, not there":   {`{"current":"b","contexts":{"a":{"host":"http://h:1","key":"k"}}}`, ""},
		"empty":               {"", "it is empty"},
		"blank":               {" \n", "it is empty"},
		"null":                {"null", "does not begin with {"},
		"a list":              {"[]", "does not begin with {"},
		"cut":                 {one("http://h", aKey)[:40], "its end is missing"},
		"two":                 {"{}\n{}", "something follows its end, in line 2"},
		"no JSON":             {"{\n\n\"contexts\": x}", "line 3: invalid character"},
		"a number for text":   {`{"contexts":{"a":{"host":7,"key":"k"}}}`, `line 1: "contexts.host" is a number, not text`},
		"text for an object":  {`{"contexts":{"a":"` + aKey + `"}}`, `line 1: "contexts" is a string, not object`},
		"a field unknown":     {`{"contexts":{},"proxy":"http://x"}`, `unknown field "proxy"`},
		"one below":           {`{"contexts":{"a":{"host":"http://h","key":"k","tls":false}}}`, `unknown field "tls"`},
		"a name twice":        {"{\"contexts\":{\"a\":{\"host\":\"http://h\",\"key\":\"k\"},\n\"a\":{\"host\":\"http://evil\",\"key\":\"k\"}}}", `line 2: "a" is there twice`},
		"a field twice":       {`{"contexts":{"a":{"host":"http://h","host":"http://evil","key":"k"}}}`, `"host" is there twice`},
		"twice, written once": {`{"contexts":{"a":{"host":"http://h","Ho\u017ft":"http://evil","key":"k"}}}`, `is there twice`},
		"contexts twice":      {`{"contexts":{},"CONTEXTS":{}}`, `"CONTEXTS" is there twice`},
		"a name like no name": {`{"contexts":{"A b":{"host":"http://h","key":"k"}}}`, `"A b" is no name of a context`},
		"this machine's name": {`{"contexts":{"local":{"host":"http://h","key":"k"}}}`, `"local" is no name`},
		"a current like none": {`{"current":"../x","contexts":{}}`, `current: "../x" is no name`},
		"too many":            {many, "names 1001 contexts; the most is 1000"},
		"no address":          {one("", aKey), `context "a": the address is missing`},
		"no key":              {one("http://h", ""), `context "a": there is no API key`},
		"a key of two lines":  {one("http://h", "k\r\nX: y"), `context "a": there is no API key`},
		"a password":          {one("https://me:hunter2@h", aKey), "holds a user name, a password or a query"},
		"a user":              {one("https://hunter2@h", aKey), "holds a user name, a password or a query"},
		"a query":             {one("https://h/?token=hunter2", aKey), "holds a user name, a password or a query"},
		"an empty query":      {one("https://h/?", aKey), "holds a user name, a password or a query"},
		"no URL":              {one("https://me:hunter2%zz@h", aKey), "is no URL"},
		"another scheme":      {one("file:///etc/passwd", aKey), "is no address of a daemon"},
		"no scheme":           {one("hortus.example", aKey), "is no address of a daemon"},
	} {
		got, err := parseContexts([]byte(tt.text))
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.says == "" && got.Contexts == nil:
			t.Errorf("%s: %+v", name, got)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		case err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), aKey)):
			t.Errorf("%s: a secret is told: %v", name, err)
		}
	}
}

// holder is somebody with a home directory, and a file of contexts in it where text is
// not empty.
type holder struct {
	t    *testing.T
	home string
	file string
}

func newHolder(t *testing.T, text string) *holder {
	t.Helper()
	p := &holder{t: t, home: t.TempDir()}
	p.file = filepath.Join(p.home, ".config", "hortus", "contexts.json")
	if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run runs a command; no daemon is there.
func (p *holder) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	return runIn(p.t, map[string]string{"HOME": p.home, "HORTUS_API_KEY": aKey}, nil, "", nil, args...)
}

func (p *holder) text() string {
	p.t.Helper()
	b, err := os.ReadFile(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// TestBrokenContextsAreKept: a file that cannot be read stays, byte for byte, whatever
// is tried; what is said names it, and what to do.
func TestBrokenContextsAreKept(t *testing.T) {
	for name, text := range map[string]string{
		"cut":         `{"contexts":{"a":{"host":"http://h","key":"` + aKey,
		"of a future": `{"version":2,"contexts":{"a":{"host":"http://h","key":"` + aKey + `"}}}`,
		"doubled":     `{"contexts":{"a":{"host":"http://h","key":"k"},"a":{"host":"http://g","key":"k"}}}`,
		"too big":     `{"contexts":{}` + strings.Repeat(" ", 1<<20) + `}`,
	} {
		p := newHolder(t, text)
		for _, args := range [][]string{
			{"context", "add", "b", "--host", "https://hortus.example"}, {"context", "use", "local"}, {"context", "use", "a"},
			{"context", "rm", "a"}, {"context", "ls"}, {"sandbox", "ls", "--host", "a"}, {"sandbox", "ls"},
		} {
			code, stdout, stderr := p.run(args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, p.file) || !strings.Contains(stderr, "\n  next: ") || !strings.Contains(stderr, "mv ") {
				t.Errorf("%s, %q: exit code %d, %q, %q", name, args, code, stdout, stderr)
			}
			if strings.Contains(stderr, aKey) {
				t.Errorf("%s, %q: the key is told: %q", name, args, stderr)
			}
			if p.text() != text {
				t.Fatalf("%s, %q: the file was changed", name, args)
			}
		}
		os.Remove(filepath.Join(filepath.Dir(p.file), ".contexts.lock"))
		if all, err := os.ReadDir(filepath.Dir(p.file)); err != nil || len(all) != 1 {
			t.Errorf("%s: something else was left beside it: %v, %v", name, all, err)
		}
	}
}

// TestContextAddRefuses: nothing is written that would not be read.
func TestContextAddRefuses(t *testing.T) {
	const before = `{"contexts":{"a":{"host":"http://h","key":"k"}}}`
	p := newHolder(t, before)
	for _, host := range []string{"https://me:hunter2@h", "https://h?hunter2", "ftp://h", "h"} {
		code, stdout, stderr := p.run("context", "add", "b", "--host", host)
		if code == 0 || stdout != "" || strings.Contains(stderr, "hunter2") || p.text() != before {
			t.Errorf("%s: exit code %d, %q, %q; the file is %s", host, code, stdout, stderr, p.text())
		}
	}
	err := changeContexts(t.Context(), p.file, func(full *contexts) error {
		clear(full.Contexts)
		for n := range maxContexts {
			full.Contexts[fmt.Sprint("c", n)] = remote{"http://h", "k"}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := p.text()
	if code, _, stderr := p.run("context", "add", "b", "--host", "https://h"); code == 0 || !strings.Contains(stderr, "no room") || p.text() != whole {
		t.Errorf("one too many: exit code %d, %q", code, stderr)
	}
	// The control: in the place of another there is room.
	if code, _, stderr := p.run("context", "add", "c7", "--host", "https://hortus.example"); code != 0 {
		t.Errorf("in another's place: %q", stderr)
	}
	got, err := loadContexts(p.file)
	if err != nil || got.Contexts["c7"] != (remote{"https://hortus.example", aKey}) || len(got.Contexts) != maxContexts {
		t.Errorf("%+v, %v", got.Contexts["c7"], err)
	}
}

// FuzzContexts reads files that somebody made up. What is taken is within bounds, and is
// the same when it is written and read again.
func FuzzContexts(f *testing.F) {
	const aKey = "e2b_0123456789abcdef0123456789abcdef01234567"
	f.Add([]byte(`{"current":"a","contexts":{"a":{"host":"https://h:1/p","key":"` + aKey + `"}}}`))
	f.Add([]byte(`{"contexts":{"a":{"host":"https://u:p@h","key":"k"},"a":{}}}`))
	f.Add([]byte(`{"contexts":{"a":{"host":"http://h","Ho\u017ft":"http://g","key":"k"}}} x`))
	f.Add([]byte(`[[[[{"a":1,"A":2}]]]]`))
	f.Add([]byte(`{"contexts":{"a":{"host":"https://h:1/#","keY":"k"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseContexts(b)
		if err != nil {
			if !reflect.DeepEqual(got, contexts{}) {
				t.Errorf("beside an error: %+v", got)
			}
			return
		}
		if len(got.Contexts) > maxContexts {
			t.Errorf("%d contexts", len(got.Contexts))
		}
		for name, r := range got.Contexts {
			if u, err := url.Parse(r.Host); err != nil || u.User != nil {
				t.Errorf("taken: %q at %q", name, r.Host)
			}
			if checkContextName(name) != nil || r.check() != nil || strings.ContainsAny(r.Host, "?#\r\n ") || strings.ContainsAny(r.Key, "\r\n ") {
				t.Errorf("taken: %q, %+v", name, r)
			}
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseContexts(again); err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%s is read as %+v, %v", again, back, err)
		}
	})
}
