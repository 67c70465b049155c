package answer_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
)

const total = `{"type":"object","required":["total"],"additionalProperties":false,
	"properties":{"total":{"type":"integer","minimum":0},"of":{"$ref":"#/$defs/name"}},
	"$defs":{"name":{"type":"string","pattern":"^[a-z]+$"}}}`

func TestCheck(t *testing.T) {
	s, err := answer.Compile(json.RawMessage(total))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, out, err string }{
		{in: ` {"total": 12} ` + "\n", out: `{"total":12}`},
		{in: `{"total":0,"of":"apples"}`, out: `{"total":0,"of":"apples"}`},
		{in: `{"total":123456789012345678901}`, out: `{"total":123456789012345678901}`},
		{in: `{"total":-1}`, err: "not valid"},
		{in: `{"total":1.5}`, err: "not valid"},
		{in: `{"total":"12"}`, err: "not valid"},
		{in: `{"of":"apples"}`, err: "not valid"},
		{in: `{"total":1,"of":"Apples"}`, err: "not valid"},
		{in: `{"total":1,"more":2}`, err: "not valid"},
		{in: `{"total":1,"total":2}`, err: "twice"},
		{in: `{"total":1} {"total":2}`, err: "more than one"},
		{in: `{"total":1`, err: "not JSON"},
		{in: `{"total":1}x`, err: "not JSON"},
		{in: "{\"total\":1,\"of\":\"\xff\"}", err: "UTF-8"},
		{in: `12`, err: "not valid"},
		{in: ``, err: "no JSON value"},
		{in: strings.Repeat("[", 1000) + strings.Repeat("]", 1000), err: "nested"},
		{in: `"` + strings.Repeat("x", answer.MaxValue) + `"`, err: "maximum"},
	} {
		out, err := s.Check([]byte(c.in))
		switch {
		case c.err == "" && (err != nil || string(out) != c.out):
			t.Errorf("%s: %s, %v; want %s", c.in, out, err, c.out)
		case c.err != "" && (err == nil || api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), c.err) || out != nil):
			t.Errorf("%.80s: %s, %v; want an error with %q", c.in, out, err, c.err)
		}
	}
}

func TestCompile(t *testing.T) {
	var asked atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		w.Write([]byte(`{"type":"integer"}`))
	}))
	defer web.Close()
	for _, bad := range []string{
		``, `{`, `[]`, `"string"`, `{"type":"nothing"}`, `{"type":"object"} {}`,
		`{"type":"object","type":"string"}`,
		`{"$ref":"` + web.URL + `/schema.json"}`, `{"$ref":"file:///etc/hostname"}`, `{"$ref":"other.json"}`,
		`{"$ref":"#/$defs/none"}`, `{"pattern":"("}`,
		`{"description":"` + strings.Repeat("x", answer.MaxSchema) + `"}`,
		strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat("}", 200),
	} {
		if s, err := answer.Compile(json.RawMessage(bad)); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.80s: %v, %v; want KindInvalid", bad, s, err)
		}
	}
	if asked.Load() {
		t.Error("a schema was fetched")
	}
	for _, good := range []string{`{}`, `true`, total, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":["array","null"]}`} {
		if _, err := answer.Compile(json.RawMessage(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// A schema that refers to itself must end with any value.
func TestRecursion(t *testing.T) {
	for _, endless := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`} {
		if s, err := answer.Compile(json.RawMessage(endless)); err == nil {
			if _, err := s.Check([]byte(`{}`)); err == nil {
				t.Errorf("%s: a value is valid for it", endless)
			}
		}
	}
	tree, err := answer.Compile(json.RawMessage(`{"type":"object","properties":{"next":{"$ref":"#"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Check([]byte(`{"next":{"next":{}}}`)); err != nil {
		t.Error(err)
	}
	if _, err := tree.Check([]byte(`{"next":{"next":1}}`)); err == nil {
		t.Error("an invalid tree was taken")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(total, `{"total":1}`)
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(`{"type":"array","items":{"enum":[1,"a",null]}}`, `[1,"a"]`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := answer.Compile(json.RawMessage(schema))
		if err != nil {
			return
		}
		out, err := s.Check([]byte(value))
		if err == nil && !json.Valid(out) {
			t.Errorf("%q is not JSON", out)
		}
	})
}
