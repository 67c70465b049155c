package answer

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hortus.dev/api"
)

const (
	// MaxSchema is the maximum size of a schema, and MaxValue of a value, in bytes.
	MaxSchema = 64 << 10
	MaxValue  = 1 << 20
	// maxDepth bounds how deep a schema or a value is nested: validation recurses.
	maxDepth = 100
	// maxWhy bounds what is said of an invalid value, in bytes.
	maxWhy = 1 << 10
)

// Schema is a compiled JSON Schema: draft 2020-12, or the one that its $schema names.
type Schema struct{ compiled *jsonschema.Schema }

// place is the address that a schema gets; it refers to nothing.
const place = "hortus:///answer.json"

// nowhere loads no documents.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, api.Errorf(api.KindInvalid, "%s is another document", clip(url))
}

// Compile reads a schema. It fails with KindInvalid if it is too large, malformed or refers to
// another document.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchema {
		return nil, api.Errorf(api.KindInvalid, "the JSON Schema has %d bytes; the maximum is %d", len(raw), MaxSchema)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the JSON Schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.AssertFormat()
	if err = c.AddResource(place, doc); err == nil {
		var s *jsonschema.Schema
		if s, err = c.Compile(place); err == nil {
			return &Schema{compiled: s}, nil
		}
	}
	return nil, api.Errorf(api.KindInvalid, "the JSON Schema: %s", clip(err.Error())).
		WithHint("a schema is an object such as {\"type\": \"object\", \"required\": [\"total\"]}, and refers to itself only, as #/$defs/NAME")
}

// Check returns the one JSON value in b, without spaces around it. It fails with KindInvalid, and
// says where, if there is not exactly one or if it is not valid.
func (s *Schema) Check(b []byte) (json.RawMessage, error) {
	if len(b) > MaxValue {
		return nil, api.Errorf(api.KindInvalid, "the JSON value has %d bytes; the maximum is %d", len(b), MaxValue)
	}
	v, err := decode(b)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%v", err)
	}
	if err := s.compiled.Validate(v); err != nil {
		return nil, api.Errorf(api.KindInvalid, "the JSON value is not valid for the schema: %s", clip(err.Error()))
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return nil, api.Errorf(api.KindInvalid, "not JSON: %v", err)
	}
	return out.Bytes(), nil
}

// decode reads exactly one JSON value of bounded depth, in which no object has a name twice.
func decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, api.Errorf(api.KindInvalid, "not JSON: it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	var seen []map[string]bool // the names of each open object; nil for an array
	name, values := false, 0   // whether the next string is a name; values of the outermost level
	for {
		t, err := dec.Token()
		if err == io.EOF && len(seen) == 0 && values == 1 {
			break
		}
		if err == io.EOF && values == 0 && len(seen) == 0 {
			return nil, api.Errorf(api.KindInvalid, "there is no JSON value")
		}
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "not JSON: %v", err)
		}
		if len(seen) == 0 && values == 1 {
			return nil, api.Errorf(api.KindInvalid, "there is more than one JSON value")
		}
		d, open := t.(json.Delim)
		if open && (d == '}' || d == ']') {
			seen = seen[:len(seen)-1]
		} else if key, ok := t.(string); ok && name {
			top := seen[len(seen)-1]
			if top[key] {
				return nil, api.Errorf(api.KindInvalid, "the name %q occurs twice in an object", clip(key))
			}
			top[key] = true
			name = false
			continue
		} else if open {
			if len(seen) == maxDepth {
				return nil, api.Errorf(api.KindInvalid, "JSON is nested more than %d deep", maxDepth)
			}
			var names map[string]bool
			if d == '{' {
				names = map[string]bool{}
			}
			seen = append(seen, names)
			name = d == '{'
			continue
		}
		// A value ended.
		if len(seen) == 0 {
			values++
		} else {
			name = seen[len(seen)-1] != nil
		}
	}
	dec = json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // integers of any size
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, api.Errorf(api.KindInvalid, "not JSON: %v", err)
	}
	return v, nil
}

// clip shortens what a message says of bytes from outside.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxWhy {
		s = strings.ToValidUTF8(s[:maxWhy], "") + "..."
	}
	return s
}
