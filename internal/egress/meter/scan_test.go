package meter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scanned reads a document in parts that end at some positions, and returns what was reported.
func scanned(doc string, cuts ...int) (out []string, end state) {
	s := scanner{found: func(path string, v value) {
		if v.string {
			v.text = strconv.Quote(v.text)
		}
		out = append(out, path+"="+v.text)
	}}
	from := 0
	for _, at := range cuts {
		s.scan([]byte(doc[from:at]))
		from = at
	}
	s.scan([]byte(doc[from:]))
	return out, s.state
}

func TestScan(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for doc, want := range map[string]string{
		`{}`:                           "",
		`{"a":1}`:                      "a=1",
		` { "a" : -1.5e3 , "b":"c" } `: `a=-1.5e3 b="c"`,
		`{"a":{"b":{"c":true}},"d":null,"e":false}`:        "a.b.c=true d=null e=false",
		`{"a":[1,{"b":2},[3]],"c":4}`:                      "c=4",
		`[{"a":1},{"a":2}]`:                                "a=1 a=2",
		`[[{"a":1}],{"b":[]}]`:                             "",
		`{"a":"x\"y\\","b":"\u0041","\u0063":1}`:           `a="x\"y\\" b="A" c=1`,
		`{"a":"` + long + `","b":1}`:                       "b=1",
		`{"` + long + `":2,"b":1}`:                         "=2 b=1",
		`{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}`:            "",
		`{"a":{"a":{"a":{"a":{"a":1}}}}}`:                  "a.a.a.a.a=1",
		`{"a":{},"b":[],"c":""}`:                           `c=""`,
		`{"text":"{\"usage\":{\"n\":1}}","usage":{"n":2}}`: `text="{\"usage\":{\"n\":1}}" usage.n=2`,
		`{"d":[{"usage":{"n":1}}],"usage":{"n":2}}`:        "usage.n=2",
		`{"a.b":1}`:   "=1",
		"{\"a\":1}\n": "a=1",
	} {
		for at := range len(doc) + 1 {
			got, end := scanned(doc, at)
			if text := strings.Join(got, " "); text != want || end != finished {
				t.Errorf("%.60q cut at %d: %s, state %d; want %s", doc, at, text, end, want)
			}
		}
	}
	for _, doc := range []string{
		`}`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{'a':1}`, "{\"a\":\"\n\"}", "{\"a\n\":1}",
		`{"a":1}}`, `{"a":1}{"b":2}`, `{"a":tru}`, `{"a":01}`, `{"a":--1}`, `{"a":1-}`, `{"a":"\x"}`, `{"a":` + strings.Repeat("1", maxText+1) + `}`,
		strings.Repeat("[", maxNest+1), strings.Repeat(`{"a":`, maxNest+1), "\xff", `{"a":Infinity}`, `[DONE]`, `{1:2}`,
	} {
		if got, end := scanned(doc); end != malformed {
			t.Errorf("%.60q: %q, state %d", doc, got, end)
		}
	}
	for _, doc := range []string{``, ` `, `{`, `{"a`, `{"a":`, `{"a":"b`, `{"a":[1`, `[`, `{"a":1`} {
		if got, end := scanned(doc); end == malformed || end == finished {
			t.Errorf("%.60q: %q, state %d", doc, got, end)
		}
	}
}

// members returns what a scanner reports of a document, of which it is no duplicate.
func members(prefix string, v any, depth int, out map[string]string) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	for name, v := range object {
		path := name
		if prefix != "" || depth > 0 {
			path = prefix + "." + name
		}
		switch v := v.(type) {
		case map[string]any:
			members(path, v, depth+1, out)
		case string:
			if depth < maxPath {
				out[path] = strconv.Quote(v)
			}
		case json.Number:
			if depth < maxPath {
				out[path] = v.String()
			}
		case nil, bool:
			if depth < maxPath {
				out[path] = strings.ReplaceAll(fmt.Sprint(v), "<nil>", "null")
			}
		}
	}
}

// FuzzScan compares what is reported of a document with what encoding/json reads, for documents in
// which no name or scalar is long.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":{"b":1},"c":[{"d":2}],"e":"\u0041\n"}`, `[{"a":1}]`, `{"a":1,"a":2}`, `{"":{"":0}}`, `{"a":"` + "\xff" + `"}`, `{"a.b":1}`} {
		f.Add(s, 3, 7)
	}
	f.Fuzz(func(t *testing.T, doc string, one, two int) {
		if len(doc) > maxText/2 {
			return
		}
		whole, end := scanned(doc)
		at := []int{max(0, min(one, len(doc))), max(0, min(two, len(doc)))}
		slices.Sort(at)
		if parts, e := scanned(doc, at...); !slices.Equal(parts, whole) || e != end {
			t.Errorf("cut at %d: %q, %d; whole: %q, %d", at, parts, e, whole, end)
		}
		d := json.NewDecoder(strings.NewReader(doc))
		d.UseNumber()
		var v any
		err := d.Decode(&v)
		if err == nil && d.More() {
			err = fmt.Errorf("more")
		}
		if end == finished && !json.Valid([]byte(doc)) && !strings.Contains(doc, `\u`) {
			t.Errorf("%q is read, but is not JSON", doc)
		}
		object, ok := v.(map[string]any)
		if err != nil || !json.Valid([]byte(doc)) || !ok || strings.Contains(doc, "\xff") || !json.Valid([]byte(strings.ToValidUTF8(doc, ""))) || strings.ToValidUTF8(doc, "") != doc {
			return
		}
		if end != finished {
			t.Fatalf("%q is JSON, state %d", doc, end)
		}
		want, got := map[string]string{}, map[string]string{}
		members("", object, 0, want)
		for path := range want {
			if strings.Contains(strings.ReplaceAll(path, ".", ""), "=") || strings.Count(doc, ".") > 0 {
				return // a name may have a dot, and is not reported then
			}
		}
		for _, one := range whole {
			// The last one counts, as in encoding/json. A name may have "=".
			for path := range want {
				if strings.HasPrefix(one, path+"=") && one == path+"="+want[path] {
					got[path] = want[path]
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: %q, want %q", doc, whole, want)
		}
	})
}

// events reads a stream in parts.
func eventsOf(stream string, cuts ...int) (out []string) {
	var data strings.Builder
	e := events{data: func(b []byte) { data.Write(b) }, end: func() {
		out = append(out, data.String())
		data.Reset()
	}}
	from := 0
	for _, at := range cuts {
		e.scan([]byte(stream[from:at]))
		from = at
	}
	e.scan([]byte(stream[from:]))
	return out
}

func TestEvents(t *testing.T) {
	for stream, want := range map[string][]string{
		"data: a\n\n":                                 {"a"},
		"data:a\n\ndata:  b\n\n":                      {"a", " b"},
		"event: x\ndata: a\nid: 1\n\n":                {"a"},
		"data: a\r\n\r\ndata: b\r\rdata: c\n\n":       {"a", "b", "c"},
		"data: a\ndata: b\n\n":                        {"a\nb"},
		": comment\n\ndata: a\n\n":                    {"a"},
		"data\n\ndata: a\n\n":                         {"a"},
		"dataset: x\n\ndata: a: b\n\n":                {"a: b"},
		"\n\n\ndata: a\n\n\n\n":                       {"a"},
		"data: a\n":                                   nil,
		"data:\n\n":                                   {""},
		strings.Repeat("x", 100) + ": y\ndata: a\n\n": {"a"},
	} {
		for at := range len(stream) + 1 {
			if got := eventsOf(stream, at); !slices.Equal(got, want) {
				t.Errorf("%q cut at %d: %q, want %q", stream, at, got, want)
			}
		}
	}
}
