package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxInput bounds one call's input, in bytes.
const maxInput = 3 << 20

// anyLine is the largest number of a line.
const anyLine = 1 << 40

// field is one argument of a tool.
type field struct {
	name string
	kind string // "string", "integer", "boolean", "object" of strings, "array" of objects, or "" for any JSON value
	doc  string
	need bool
	// enum lists the strings that are taken; min and max bound an integer where
	// max is not 0. A max of anyLine is in no schema.
	enum     []string
	min, max int64
	// of are the fields of an array's objects; max bounds their number.
	of fields
}

// fields are all arguments of a tool. The schema and the decoding depend on it.
type fields []field

func (fs fields) schema() json.RawMessage {
	type property struct {
		Type        string   `json:"type,omitempty"`
		Description string   `json:"description,omitempty"`
		Enum        []string `json:"enum,omitempty"`
		Maximum     int64    `json:"maximum,omitempty"`
		Values      any      `json:"additionalProperties,omitempty"`
		Items       any      `json:"items,omitempty"`
	}
	props, need := map[string]property{}, []string{}
	for _, f := range fs {
		p := property{Type: f.kind, Description: f.doc, Enum: f.enum}
		if f.max != 0 && f.max < anyLine && f.of == nil {
			p.Maximum = f.max
		}
		if f.of != nil {
			p.Items = f.of.schema()
		}
		if f.kind == "object" {
			p.Values = map[string]string{"type": "string"}
		}
		props[f.name] = p
		if f.need {
			need = append(need, f.name)
		}
	}
	// Unknown fields are refused by the loop and by decode: the schema need not say so in every request.
	schema := map[string]any{"type": "object", "properties": props}
	if len(need) > 0 {
		schema["required"] = need
	}
	b, err := json.Marshal(schema)
	if err != nil {
		panic(err) // the fields are constants of this package
	}
	return b
}

// names lists the arguments for a person who got one wrong.
func (fs fields) names() string {
	var b strings.Builder
	for i, f := range fs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.name)
		if !f.need {
			b.WriteByte('?')
		}
	}
	return b.String()
}

// args are decoded arguments: string, int64, bool, map[string]string, []args or json.RawMessage.
type args map[string]any

func (a args) str(name string) string              { s, _ := a[name].(string); return s }
func (a args) has(name string) bool                { _, ok := a[name]; return ok }
func (a args) yes(name string) bool                { b, _ := a[name].(bool); return b }
func (a args) pairs(name string) map[string]string { m, _ := a[name].(map[string]string); return m }

func (a args) list(name string) []args { l, _ := a[name].([]args); return l }

func (a args) num(name string, otherwise int64) int64 {
	if n, ok := a[name].(int64); ok {
		return n
	}
	return otherwise
}

// decode reads what the model wrote. What is wrong with it is a text for the
// model. A null counts as absent; an integer or a boolean may come as a string.
func (fs fields) decode(raw json.RawMessage) (args, string) {
	if len(raw) > maxInput {
		return nil, fmt.Sprintf("the input has %d bytes; the maximum is %d", len(raw), maxInput)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var m map[string]json.RawMessage
	if err := dec.Decode(&m); err != nil || m == nil {
		return nil, fmt.Sprintf("the input is not a JSON object with the arguments %s", fs.names())
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, "the input has text after its JSON object"
	}
	out := args{}
	for name := range m {
		if !slices.ContainsFunc(fs, func(f field) bool { return f.name == name }) {
			return nil, fmt.Sprintf("argument %q does not exist; the arguments are %s", clip(name, 60), fs.names())
		}
	}
	for _, f := range fs {
		v, ok := m[f.name]
		if !ok || string(v) == "null" {
			if f.need {
				return nil, fmt.Sprintf("the argument %q is missing; the arguments are %s", f.name, fs.names())
			}
			continue
		}
		value, why := f.value(v)
		if why != "" {
			return nil, fmt.Sprintf("the argument %q %s", f.name, why)
		}
		out[f.name] = value
	}
	return out, ""
}

func (f field) value(v json.RawMessage) (any, string) {
	if f.kind == "" {
		return v, ""
	}
	var s string
	isString := json.Unmarshal(v, &s) == nil
	switch f.kind {
	case "string":
		if !isString {
			return nil, "must be a string"
		}
		if f.enum != nil && !slices.Contains(f.enum, s) {
			return nil, "must be one of " + strings.Join(f.enum, ", ")
		}
		return s, ""
	case "integer":
		if !isString {
			s = string(v)
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<52 {
			return nil, "must be a whole number"
		}
		n := int64(x)
		if f.max != 0 && (n < f.min || n > f.max) {
			return nil, fmt.Sprintf("is %d and must be between %d and %d", n, f.min, f.max)
		}
		return n, ""
	case "boolean":
		if !isString {
			s = string(v)
		}
		switch strings.ToLower(s) {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
		return nil, "must be true or false"
	case "array":
		return f.array(v)
	}
	var pairs map[string]string
	if json.Unmarshal(v, &pairs) != nil {
		return nil, "must be an object whose values are strings"
	}
	return pairs, ""
}

// array decodes an array of objects.
func (f field) array(v json.RawMessage) (any, string) {
	var all []json.RawMessage
	if json.Unmarshal(v, &all) != nil {
		return nil, "must be an array of objects"
	}
	if int64(len(all)) > f.max {
		return nil, fmt.Sprintf("has %d items; the maximum is %d", len(all), f.max)
	}
	out := make([]args, 0, len(all))
	for i, raw := range all {
		in, why := f.of.decode(raw)
		if why != "" {
			return nil, fmt.Sprintf("has an invalid item %d: %s", i+1, why)
		}
		out = append(out, in)
	}
	return out, ""
}

// where is a path of the sandbox: as text, since the guest alone resolves it.
type where struct {
	abs string // what files are read and written by
	arg string // for a script that runs in the workspace: "./a" or "/etc/b"
	say string // for people and models: "a" or "/etc/b"
}

// maxPath is the longest path, in bytes: the kernel's own bound.
const maxPath = 4096

// where cleans a path that the model gave.
func (s *Set) where(p string) (where, error) {
	switch {
	case p == "":
		return where{}, teach("the path is empty; use a path relative to %s or an absolute path", s.cfg.Dir)
	case len(p) >= maxPath:
		return where{}, teach("the path has %d bytes; the maximum is %d", len(p), maxPath-1)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return where{}, teach("the path %q contains a control character; use shell for this file", clip(p, 80))
	}
	abs := p
	if !path.IsAbs(p) {
		abs = s.cfg.Dir + "/" + p
	}
	abs = path.Clean(abs)
	if abs == s.cfg.Dir {
		return where{abs, ".", "."}, nil
	}
	if rel, ok := strings.CutPrefix(abs, s.cfg.Dir+"/"); ok {
		return where{abs, "./" + rel, rel}, nil
	}
	return where{abs, abs, abs}, nil
}

// inGit reports whether a path leads into a repository's own files.
func inGit(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".git" {
			return true
		}
	}
	return false
}
