package clients

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

var update = flag.Bool("update", false, "write the types and the compiled files of the SDKs")

const (
	typescript = "../../sdk/typescript"
	python     = "../../sdk/python"
)

// schema is what docs/openapi.json has of JSON Schema.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Const      string             `json:"const"`
	Enum       []string           `json:"enum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Additional *schema            `json:"additionalProperties"`
	OneOf      []*schema          `json:"oneOf"`
}

// TestTypes holds the types of both SDKs to docs/openapi.json.
func TestTypes(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	b, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Components.Schemas) < 100 {
		t.Fatalf("%d schemas, %v", len(doc.Components.Schemas), err)
	}
	var ts, py bytes.Buffer
	ts.WriteString("// Code generated from docs/openapi.json by go test ./test/clients -update; DO NOT EDIT.\n")
	py.WriteString(`# Code generated from docs/openapi.json by go test ./test/clients -update; DO NOT EDIT.
"""The dictionaries of the HTTP API."""

from typing import TYPE_CHECKING, Any, Dict, List, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired
`)
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		writeTypeScript(&ts, name, doc.Components.Schemas[name])
		writePython(&py, name, doc.Components.Schemas[name])
	}
	current(t, filepath.Join(typescript, "types.d.ts"), ts.Bytes())
	current(t, filepath.Join(python, "hortus/types.py"), py.Bytes())
}

// current wants a file to have that content, or writes it.
func current(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not current: go test ./test/clients -update (%v)", file, err)
	}
}

func writeTypeScript(w *bytes.Buffer, name string, s *schema) {
	if len(s.OneOf) > 0 {
		fmt.Fprintf(w, "\nexport type %s = %s;\n", name, union(s.OneOf, typeScriptOf, " | "))
		return
	}
	fmt.Fprintf(w, "\nexport interface %s {\n", name)
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		optional := "?"
		if slices.Contains(s.Required, p) {
			optional = ""
		}
		fmt.Fprintf(w, "  %s%s: %s;\n", p, optional, typeScriptOf(s.Properties[p]))
	}
	w.WriteString("}\n")
}

func typeScriptOf(s *schema) string {
	switch {
	case s.Ref != "":
		return reference(s)
	case s.Const != "":
		return fmt.Sprintf("%q", s.Const)
	case len(s.Enum) > 0:
		return quoted(s.Enum, " | ")
	}
	switch s.Type {
	case "integer", "number":
		return "number"
	case "string", "boolean":
		return s.Type
	case "array":
		if of := typeScriptOf(s.Items); !strings.Contains(of, "|") {
			return of + "[]"
		}
		return "(" + typeScriptOf(s.Items) + ")[]"
	case "object":
		if s.Additional != nil {
			return "Record<string, " + typeScriptOf(s.Additional) + ">"
		}
		return "Record<string, unknown>"
	}
	return "unknown"
}

func writePython(w *bytes.Buffer, name string, s *schema) {
	if len(s.OneOf) > 0 {
		fmt.Fprintf(w, "\n%s = Union[%s]\n", name, union(s.OneOf, func(s *schema) string { return `"` + pythonOf(s) + `"` }, ", "))
		return
	}
	// A key can be a word of Python, as in and from, so this is not a class.
	fmt.Fprintf(w, "\n%s = TypedDict(\n    %q,\n    {\n", name, name)
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		of := pythonOf(s.Properties[p])
		if !slices.Contains(s.Required, p) {
			of = "NotRequired[" + of + "]"
		}
		fmt.Fprintf(w, "        %q: '%s',\n", p, of)
	}
	w.WriteString("    },\n)\n")
}

func pythonOf(s *schema) string {
	switch {
	case s.Ref != "":
		return reference(s)
	case s.Const != "":
		return fmt.Sprintf("Literal[%q]", s.Const)
	case len(s.Enum) > 0:
		return "Literal[" + quoted(s.Enum, ", ") + "]"
	}
	switch s.Type {
	case "integer":
		return "int"
	case "number":
		return "float"
	case "string":
		return "str"
	case "boolean":
		return "bool"
	case "array":
		return "List[" + pythonOf(s.Items) + "]"
	case "object":
		if s.Additional != nil {
			return "Dict[str, " + pythonOf(s.Additional) + "]"
		}
		return "Dict[str, Any]"
	}
	return "Any"
}

func union(all []*schema, of func(*schema) string, between string) string {
	var names []string
	for _, s := range all {
		names = append(names, of(s))
	}
	return strings.Join(names, between)
}

func reference(s *schema) string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

func quoted(all []string, between string) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, between)
}
