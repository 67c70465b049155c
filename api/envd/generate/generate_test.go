package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpToDate: the generated file is what the structs say.
func TestUpToDate(t *testing.T) {
	want, err := generate("../process.go", "../filesystem.go")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../" + output)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: go generate ./api/envd", output)
	}
}

// TestRefuses: a tag that cannot be followed is an error with its place, and the control is not.
func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct{ fields, want string }{
		"control":        {"A string `proto:\"1\"`; B []*M `proto:\"2\"`; C E `proto:\"3\"`", ""},
		"no number":      {"A string `proto:\"x\"`", "is not a free one"},
		"zero":           {"A string `proto:\"0\"`", "is not a free one"},
		"too large":      {"A string `proto:\"536870912\"`", "is not a free one"},
		"taken":          {"A string `proto:\"1\"`; B string `proto:\"1\"`", "is not a free one"},
		"unknown option": {"A string `proto:\"1,packed\"`", `unknown option "packed"`},
		"two names":      {"A, B string `proto:\"1\"`", "one named field"},
		"plain int32":    {"A int32 `proto:\"1\"`", "sint32 is for an int32"},
		"string sint32":  {"A string `proto:\"1,sint32\"`", "sint32 is for an int32"},
		"oneof of value": {"A string `proto:\"1,oneof\"`", "must be a pointer or bytes"},
		"unknown type":   {"A float64 `proto:\"1\"`", "unsupported type float64"},
	} {
		file := filepath.Join(t.TempDir(), "types.go")
		text := "package p\ntype E int32\ntype M struct { " + c.fields + " }\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := generate(file)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
