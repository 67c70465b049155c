package http_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	httpapi "hortus.dev/internal/server/http"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const specFile = "../../../docs/openapi.json"

// TestSpec holds the document in docs to the table of routes.
func TestSpec(t *testing.T) {
	d := httpapi.New(httpapi.Config{})
	spec, err := d.Spec()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), spec) {
		t.Errorf("what is served is another: %d", w.Code)
	}
	if *update {
		if err := os.WriteFile(specFile, spec, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(specFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, spec) {
		t.Errorf("docs/openapi.json is not current: go test ./internal/server/http -run TestSpec -update")
	}
	for _, fault := range faults(t, spec) {
		t.Error(fault)
	}
	for rt := range d.Routes() {
		if !bytes.Contains(spec, []byte(`"operationId": "`+rt.Name)) {
			t.Errorf("%s %s is not in the document", rt.Method, rt.Pattern)
		}
	}
}

// TestSpecFaults breaks the document in every way that the check is for.
func TestSpecFaults(t *testing.T) {
	spec, err := httpapi.New(httpapi.Config{}).Spec()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"a reference to nothing":   {`#/components/schemas/Problem"`, `#/components/schemas/Nothing"`},
		"an operation named twice": {`"operationId": "run"`, `"operationId": "runs"`},
		"a path's parameter":       {`"name": "id"`, `"name": "it"`},
		"a version":                {`"openapi": "3.1.0"`, `"openapi": "3.0.0"`},
		"a type":                   {`"type": "integer"`, `"type": "int"`},
		"a required property":      {`"required": [`, `"required": ["never",`},
		"a scheme": {`"securitySchemes": {
      "key": {`, `"securitySchemes": {
      "lock": {`},
		"a description": {`"description": "Accepted"`, `"x": "Accepted"`},
	} {
		broken := bytes.Replace(spec, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(broken, spec) {
			t.Errorf("%s: %s is not there", what, change[0])
		} else if len(faults(t, broken)) == 0 {
			t.Errorf("%s is not noticed", what)
		}
	}
}

// faults checks the structure of an OpenAPI 3.1 document.
func faults(t *testing.T, spec []byte) (out []string) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(spec, &doc); err != nil {
		t.Fatal(err)
	}
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if doc["openapi"] != "3.1.0" || at(doc, "info", "title") == nil || at(doc, "info", "version") == nil {
		fault("no head")
	}
	schemes, _ := at(doc, "components", "securitySchemes").(map[string]any)
	checkSecurity := func(where string, v any) {
		all, ok := v.([]any)
		if !ok {
			fault("%s: security is no list", where)
		}
		for _, s := range all {
			for name := range s.(map[string]any) {
				if schemes[name] == nil {
					fault("%s: there is no security scheme %s", where, name)
				}
			}
		}
	}
	checkSecurity("document", doc["security"])
	named := map[string]bool{}
	paths, _ := doc["paths"].(map[string]any)
	if len(paths) < 30 {
		fault("%d paths", len(paths))
	}
	for path, item := range paths {
		for method, v := range item.(map[string]any) {
			where := method + " " + path
			op := v.(map[string]any)
			id, _ := op["operationId"].(string)
			if id == "" || named[id] || op["summary"] == "" || op["summary"] == nil {
				fault("%s: operationId %q or its summary", where, id)
			}
			named[id] = true
			if op["security"] != nil {
				checkSecurity(where, op["security"])
			}
			want := strings.Count(path, "{")
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				p := p.(map[string]any)
				switch p["in"] {
				case "path":
					want--
					if p["required"] != true || !strings.Contains(path, fmt.Sprintf("{%s}", p["name"])) {
						fault("%s: parameter %v", where, p["name"])
					}
				case "query", "header":
				default:
					fault("%s: parameter in %v", where, p["in"])
				}
				if p["schema"] == nil {
					fault("%s: parameter %v has no schema", where, p["name"])
				}
			}
			if want != 0 {
				fault("%s: %d parameters of the path are missing", where, want)
			}
			responses, _ := op["responses"].(map[string]any)
			if len(responses) < 2 {
				fault("%s: %d responses", where, len(responses))
			}
			for code, r := range responses {
				r := r.(map[string]any)
				if r["description"] == nil && r["$ref"] == nil {
					fault("%s: response %s has no description", where, code)
				}
			}
		}
	}
	types := []string{"object", "array", "string", "integer", "number", "boolean"}
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s/%d", where, i), x)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				rest, local := strings.CutPrefix(ref, "#/")
				if !local || at(doc, strings.Split(rest, "/")...) == nil {
					fault("%s: %s is not there", where, ref)
				}
			}
			if kind, ok := v["type"].(string); ok && !strings.HasSuffix(where, "securitySchemes/key") && !slices.Contains(types, kind) {
				fault("%s: there is no type %s", where, kind)
			}
			properties, isObject := v["properties"].(map[string]any)
			if required, ok := v["required"].([]any); ok && isObject {
				for _, name := range required {
					if properties[name.(string)] == nil {
						fault("%s: %s is required and not there", where, name)
					}
				}
			}
			for k, x := range v {
				walk(where+"/"+k, x)
			}
		}
	}
	walk("", doc)
	return out
}

// at follows a path into a document.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}
