package contexts

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// TestParseContexts reads files of every kind. What is said about a bad one holds no
// key and no password.
func TestParseContexts(t *testing.T) {
	const aKey = "e2b_0123456789abcdef0123456789abcdef01234567"
	one := func(host, key string) string {
		return fmt.Sprintf(`{"contexts":{"a":{"host":%q,"key":%q}}}`, host, key)
	}
	many := `{"contexts":{`
	for n := range Max + 1 {
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
		"cut":                 {one("http://h", aKey)[:40], "it is truncated"},
		"two":                 {"{}\n{}", "unexpected data after its end, in line 2"},
		"no JSON":             {"{\n\n\"contexts\": x}", "line 3: invalid character"},
		"a number for text":   {`{"contexts":{"a":{"host":7,"key":"k"}}}`, `line 1: "contexts.host" is a number, not text`},
		"text for an object":  {`{"contexts":{"a":"` + aKey + `"}}`, `line 1: "contexts" is a string, not object`},
		"a field unknown":     {`{"contexts":{},"proxy":"http://x"}`, `unknown field "proxy"`},
		"one below":           {`{"contexts":{"a":{"host":"http://h","key":"k","tls":false}}}`, `unknown field "tls"`},
		"a name twice":        {"{\"contexts\":{\"a\":{\"host\":\"http://h\",\"key\":\"k\"},\n\"a\":{\"host\":\"http://evil\",\"key\":\"k\"}}}", `line 2: "a" is listed twice`},
		"a field twice":       {`{"contexts":{"a":{"host":"http://h","host":"http://evil","key":"k"}}}`, `"host" is listed twice`},
		"twice, written once": {`{"contexts":{"a":{"host":"http://h","Ho\u017ft":"http://evil","key":"k"}}}`, `is listed twice`},
		"contexts twice":      {`{"contexts":{},"CONTEXTS":{}}`, `"CONTEXTS" is listed twice`},
		"a name like no name": {`{"contexts":{"A b":{"host":"http://h","key":"k"}}}`, `"A b" is not a valid context name`},
		"this machine's name": {`{"contexts":{"local":{"host":"http://h","key":"k"}}}`, `"local" is not a valid context name`},
		"a current like none": {`{"current":"../x","contexts":{}}`, `current: "../x" is not a valid context name`},
		"too many":            {many, "has 1001 contexts; the maximum is 1000"},
		"no address":          {one("", aKey), `context "a": the URL is missing`},
		"no key":              {one("http://h", ""), `context "a": invalid or missing API key`},
		"a key of two lines":  {one("http://h", "k\r\nX: y"), `context "a": invalid or missing API key`},
		"a password":          {one("https://me:hunter2@h", aKey), "has a user name, a password or a query"},
		"a user":              {one("https://hunter2@h", aKey), "has a user name, a password or a query"},
		"a query":             {one("https://h/?token=hunter2", aKey), "has a user name, a password or a query"},
		"an empty query":      {one("https://h/?", aKey), "has a user name, a password or a query"},
		"no URL":              {one("https://me:hunter2%zz@h", aKey), "is not a URL"},
		"another scheme":      {one("file:///etc/passwd", aKey), "is not the URL of a daemon"},
		"no scheme":           {one("hortus.example", aKey), "is not the URL of a daemon"},
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
			if !reflect.DeepEqual(got, File{}) {
				t.Errorf("beside an error: %+v", got)
			}
			return
		}
		if len(got.Contexts) > Max {
			t.Errorf("%d contexts", len(got.Contexts))
		}
		for name, r := range got.Contexts {
			if u, err := url.Parse(r.Host); err != nil || u.User != nil {
				t.Errorf("taken: %q at %q", name, r.Host)
			}
			if CheckName(name) != nil || r.Check() != nil || strings.ContainsAny(r.Host, "?#\r\n ") || strings.ContainsAny(r.Key, "\r\n ") {
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
