package loop

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSchema(t *testing.T) {
	s, err := parseSchema(json.RawMessage(`{"type":"object","required":["path"],"additionalProperties":false,"properties":{
		"path":{"type":"string","maxLength":5},"n":{"type":"integer"},"x":{"type":"number"},"all":{"type":"boolean"},
		"mode":{"type":"string","enum":["a","b"]},"list":{"type":"array","items":{"type":"string"}},
		"env":{"type":"object","additionalProperties":{"type":"string"}},"any":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.fields(), `path string, all boolean (optional), any (optional), env object (optional), list array (optional), mode one of "a"|"b" (optional), n integer (optional), x number (optional)`; got != want {
		t.Errorf("%s", got)
	}
	for input, says := range map[string]string{
		`{"path":"a"}`: "",
		`{"path":"a","n":3,"x":1.5,"all":true,"mode":"b","list":["x"],"env":{"A":"b"},"any":[1,{}]}`: "",
		`{"path":"a","n":3.0}`:        "",
		`{}`:                          `the input lacks the field "path"`,
		`[]`:                          "the input must be an object, not an array",
		`"x"`:                         "the input must be an object, not a string",
		`null`:                        "the input must be an object, not null",
		`{"path":7}`:                  "path must be a string, not the number 7",
		`{"path":"abcdef"}`:           "path has 6 bytes; the maximum is 5",
		`{"path":"a","n":"3"}`:        "",
		`{"path":"a","x":" -1.5e3 "}`: "",
		`{"path":"a","all":"True"}`:   "",
		`{"path":"a","n":null}`:       "",
		`{"path":null}`:               `the input lacks the field "path"`,
		`{"path":"a","n":"three"}`:    "n must be a whole number, not a string",
		`{"path":"a","n":true}`:       "n must be a whole number, not a boolean",
		`{"path":"a","n":3.5}`:        "n must be a whole number, not the number 3.5",
		`{"path":"a","n":1e99}`:       "n must be a whole number",
		`{"path":"a","x":false}`:      "x must be a number, not a boolean",
		`{"path":"a","all":"yes"}`:    "all must be a boolean, not a string",
		`{"path":"a","mode":"c"}`:     `mode must be one of "a"|"b"`,
		`{"path":"a","list":[1]}`:     "list[0] must be a string, not the number 1",
		`{"path":"a","list":{}}`:      "list must be an array, not an object",
		`{"path":"a","env":{"A":1}}`:  "env.A must be a string, not the number 1",
		`{"path":"a","command":"ls"}`: `the input has an unknown field "command"`,
	} {
		var v any
		if err := strictJSON([]byte(input), &v); err != nil {
			t.Fatal(err)
		}
		if got := s.check("", v); (got == "") != (says == "") || !strings.HasPrefix(got, says) {
			t.Errorf("%s: %q, want %q", input, got, says)
		}
	}
	for _, bad := range []string{"", "[]", `{"properties":{"a":null}}`, `{"type":7}`} {
		if _, err := parseSchema(json.RawMessage(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\tb":                 "a b",
		"\x1b[31mred\u202e":      "[31mred",
		"":                       "",
		strings.Repeat("é", 300): strings.Repeat("é", 98) + "...",
	} {
		if got := short(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for in, want := range map[string]string{
		`{"command":"make\ntest","cwd":"x"}`: "make test",
		`{"pattern":"x","path":"src"}`:       "x in src",
		`{"b":2,"a":[1]}`:                    "a=[1] b=2",
		`{"x`:                                `{"x`,
	} {
		if got := inputShort(json.RawMessage(in)); got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
}
