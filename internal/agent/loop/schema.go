package loop

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hortus.dev/api"
)

// schema is the part of JSON Schema that tools are described with. What it does
// not know is left to the tool. As models write them, a null stands for a field
// that is left out, and a number or a truth value may be in quotes.
type schema struct {
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	// Additional is false, or the schema of all other fields.
	Additional json.RawMessage `json:"additionalProperties"`
	Items      *schema         `json:"items"`
	Enum       []any           `json:"enum"`
	MaxLength  int             `json:"maxLength"`

	order []string // of Properties, as they were written
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	for name, p := range s.Properties {
		if p == nil {
			return nil, fmt.Errorf("property %q has no schema", name)
		}
		s.order = append(s.order, name)
	}
	// What is required comes first, each part by name.
	slices.SortFunc(s.order, func(a, b string) int {
		if x, y := slices.Contains(s.Required, a), slices.Contains(s.Required, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return &s, nil
}

// fields returns the properties in a line: "command string, cwd string (optional)".
func (s *schema) fields() string {
	if len(s.order) == 0 {
		return "none"
	}
	var out []string
	for _, name := range s.order {
		p := s.Properties[name]
		kind := p.Type
		if len(p.Enum) > 0 {
			kind = "one of " + enumText(p.Enum)
		}
		f := strings.TrimSpace(name + " " + kind)
		if !slices.Contains(s.Required, name) {
			f += " (optional)"
		}
		out = append(out, f)
	}
	return strings.Join(out, ", ")
}

func enumText(all []any) string {
	var words []string
	for _, v := range all {
		words = append(words, string(mustText(v)))
	}
	return strings.Join(words, "|")
}

func mustText(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("?")
	}
	return b
}

// check returns what is wrong with a value, or "". At names the place.
func (s *schema) check(at string, v any) string {
	where := at
	where = cmp.Or(where, "the input")
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return bytes.Equal(mustText(e), mustText(v)) }) {
		return fmt.Sprintf("%s must be one of %s", where, enumText(s.Enum))
	}
	switch s.Type {
	case "object":
		return s.checkObject(at, where, v)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return mustBe(where, "an array", v)
		}
		for i, e := range list {
			if s.Items == nil {
				break
			}
			if wrong := s.Items.check(fmt.Sprintf("%s[%d]", at, i), e); wrong != "" {
				return wrong
			}
		}
	case "string":
		text, ok := v.(string)
		if !ok {
			return mustBe(where, "a string", v)
		}
		if s.MaxLength > 0 && len(text) > s.MaxLength {
			return fmt.Sprintf("%s has %d bytes; the maximum is %d", where, len(text), s.MaxLength)
		}
	case "boolean":
		if unquoted[bool](v) == nil {
			return mustBe(where, "a boolean", v)
		}
	case "integer":
		if n := unquoted[json.Number](v); n == nil || !whole(*n) {
			return mustBe(where, "a whole number", v)
		}
	case "number":
		if unquoted[json.Number](v) == nil {
			return mustBe(where, "a number", v)
		}
	}
	return ""
}

func (s *schema) checkObject(at, where string, v any) string {
	obj, ok := v.(map[string]any)
	if !ok {
		return mustBe(where, "an object", v)
	}
	for _, name := range s.Required {
		if obj[name] == nil {
			return fmt.Sprintf("%s lacks the field %q", where, name)
		}
	}
	names := make([]string, 0, len(obj))
	for name := range obj {
		names = append(names, name)
	}
	slices.Sort(names)
	extra := additional(s.Additional)
	for _, name := range names {
		p := s.Properties[name]
		switch {
		case p == nil && bytes.Equal(bytes.TrimSpace(s.Additional), []byte("false")):
			return fmt.Sprintf("%s has an unknown field %q", where, api.Clip(name, 64))
		case p == nil:
			p = extra
		}
		if p == nil || obj[name] == nil {
			continue
		}
		if wrong := p.check(strings.TrimPrefix(at+"."+api.Clip(name, 64), "."), obj[name]); wrong != "" {
			return wrong
		}
	}
	return ""
}

// additional reads the schema of fields without one of their own, or nil.
func additional(raw json.RawMessage) *schema {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return nil
	}
	s, err := parseSchema(raw)
	if err != nil {
		return nil
	}
	return s
}

// unquoted returns a value that may stand in a string, or nil.
func unquoted[T any](v any) *T {
	if t, ok := v.(T); ok {
		return &t
	}
	s, ok := v.(string)
	if !ok || strictJSON([]byte(strings.ToLower(strings.TrimSpace(s))), &v) != nil {
		return nil
	}
	if t, ok := v.(T); ok {
		return &t
	}
	return nil
}

func whole(n json.Number) bool {
	if _, err := n.Int64(); err == nil {
		return true
	}
	return strings.HasSuffix(n.String(), ".0") && !strings.ContainsAny(n.String(), "eE")
}

func mustBe(where, what string, v any) string {
	is := "an object"
	switch v.(type) {
	case nil:
		is = "null"
	case string:
		is = "a string"
	case bool:
		is = "a boolean"
	case json.Number:
		is = "the number " + api.Clip(string(mustText(v)), 32)
	case []any:
		is = "an array"
	}
	return fmt.Sprintf("%s must be %s, not %s", where, what, is)
}

// strictJSON reads exactly one JSON value.
func strictJSON(raw []byte, out any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errors.New("it is truncated")
		}
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data follows the first value")
	}
	return nil
}
