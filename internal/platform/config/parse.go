package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"hortus.dev/api"
)

// entry is one setting of a file.
type entry struct {
	text string
	line int
}

// parse reads a file's settings by their keys. Relative paths are below the
// file's directory.
func parse(path string, text []byte) (map[string]entry, error) {
	// The decoder knows what a whole document may not do, such as naming a key
	// twice; the parser knows where things stand.
	var doc map[string]any
	if err := toml.Unmarshal(text, &doc); err != nil {
		line := 0
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, _ = de.Position()
		}
		return nil, api.Errorf(api.KindInvalid, "%s: %s", place(path, line), strings.TrimPrefix(err.Error(), "toml: "))
	}
	known := map[string]Setting{}
	for _, s := range Settings() {
		known[s.Key] = s
	}
	f := &file{path: path, known: known, out: map[string]entry{}}
	f.p.Reset(text)
	var table []string
	for f.p.NextExpression() {
		node := f.p.Expression()
		switch node.Kind {
		case unstable.Table, unstable.ArrayTable:
			key, line := f.key(node)
			table = key
			if node.Kind == unstable.ArrayTable || !f.isTable(strings.Join(key, ".")) && !isForgeTable(key) {
				return nil, f.unknown(strings.Join(key, "."), line)
			}
		case unstable.KeyValue:
			if err := f.keyValue(table, node, doc); err != nil {
				return nil, err
			}
		}
	}
	if err := f.p.Error(); err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", path, err)
	}
	return f.out, nil
}

func place(path string, line int) string {
	if line < 1 {
		return path
	}
	return fmt.Sprintf("%s:%d", path, line)
}

// file is a document while it is read.
type file struct {
	path  string
	p     unstable.Parser
	known map[string]Setting
	out   map[string]entry
}

// key returns the parts of a node's key and its line.
func (f *file) key(node *unstable.Node) (parts []string, line int) {
	for it := node.Key(); it.Next(); {
		if line == 0 {
			line = f.p.Shape(it.Node().Raw).Start.Line
		}
		parts = append(parts, string(it.Node().Data))
	}
	return parts, line
}

// isTable reports whether settings lie below a name.
func (f *file) isTable(name string) bool {
	for k := range f.known {
		if strings.HasPrefix(k, name+".") {
			return true
		}
	}
	return false
}

// keyValue reads one assignment. Its value is looked up in the decoded document,
// where it has its type.
func (f *file) keyValue(table []string, node *unstable.Node, doc map[string]any) error {
	parts, line := f.key(node)
	parts = append(append([]string(nil), table...), parts...)
	name := strings.Join(parts, ".")
	if node.Value().Kind == unstable.InlineTable && (f.isTable(name) || isForgeTable(parts)) {
		for it := node.Value().Children(); it.Next(); {
			if err := f.keyValue(parts, it.Node(), doc); err != nil {
				return err
			}
		}
		return nil
	}
	s, ok := f.known[name]
	if !ok {
		if s, ok = forgeSetting(parts); !ok {
			return f.unknown(name, line)
		}
		if e := checkHost(parts[1]); e != nil {
			return api.Errorf(api.KindInvalid, "%s: %s: %s", place(f.path, line), name, e.Message).WithHint("%s", e.Hint)
		}
	}
	var v any = doc
	for _, p := range parts {
		m, ok := v.(map[string]any)
		if !ok {
			return f.unknown(name, line)
		}
		v = m[p]
	}
	text, e := s.fromTOML(v)
	if e == nil {
		e = s.Check(text)
	}
	if e != nil {
		return api.Errorf(api.KindInvalid, "%s: %s: %s", place(f.path, line), name, e.Message).WithHint("%s", e.Hint)
	}
	if s.Kind == Path || s.Kind == Place && !strings.Contains(text, "://") {
		if rest, ok := strings.CutPrefix(text, "~/"); ok || text == "~" {
			return api.Errorf(api.KindInvalid, "%s: %s: ~ is not expanded here", place(f.path, line), name).WithHint("use an absolute path to %s", rest)
		}
		if !filepath.IsAbs(text) {
			abs, err := filepath.Abs(f.path)
			if err != nil {
				return api.Errorf(api.KindInvalid, "%s: %w", place(f.path, line), err)
			}
			text = filepath.Join(filepath.Dir(abs), text)
		}
	}
	if len(f.out) >= maxEntries {
		return api.Errorf(api.KindInvalid, "%s: there are more than %d settings", place(f.path, line), maxEntries)
	}
	f.out[s.Key] = entry{text, line}
	return nil
}

// unknown is the error for a name that no setting has.
func (f *file) unknown(name string, line int) error {
	e := api.Errorf(api.KindInvalid, "%s: unknown setting %.80q", place(f.path, line), name)
	var names []string
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, s := range Settings() {
		// The right name in the wrong place is nearer than anything else.
		if s.Key[strings.LastIndexByte(s.Key, '.')+1:] == last {
			return e.WithHint("did you mean %s? List all: hortus config show", inTable(s.Key))
		}
		names = append(names, s.Key)
	}
	n := nearest(name, names)
	if n == "" {
		for _, s := range Settings() {
			if nearest(last, []string{s.Key[strings.LastIndexByte(s.Key, '.')+1:]}) != "" {
				n = s.Key
				break
			}
		}
	}
	if n == "" {
		return e.WithHint("list all: hortus config show")
	}
	return e.WithHint("did you mean %s? List all: hortus config show", inTable(n))
}

// inTable writes a key as one stands in a file.
func inTable(key string) string {
	if table, name, ok := strings.Cut(key, "."); ok {
		return name + " in [" + table + "]"
	}
	return key
}

// fromTOML returns the text of a value. A type that cannot be this setting's is an
// error.
func (s Setting) fromTOML(v any) (string, *api.Error) {
	want := map[Kind]string{
		Text: `a string: "..."`, Secret: `a string: "..."`, Path: `a string: "..."`, Place: `a string: "..."`, Choice: `a string: "..."`, Switch: "a boolean", Size: `a size: "512M", or a number of bytes`, Room: `a size: "5GiB", or a number of bytes`,
		List: `a list: ["...", "..."]`, Duration: `a duration: "30s"`, Stay: `a duration: "30s", 0 or "never"`, Count: "a whole number", Number: "a number",
	}[s.Kind]
	switch v := v.(type) {
	case string:
		if s.Kind != Switch && s.Kind != Count && s.Kind != Number {
			return v, nil
		}
	case []any:
		if s.Kind == List {
			return joinList(v)
		}
	case bool:
		if s.Kind == Switch {
			return strconv.FormatBool(v), nil
		}
	case int64:
		if s.Kind == Size || s.Kind == Room || s.Kind == Count || s.Kind == Number || s.Kind == Stay && v == 0 {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if s.Kind == Number && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	}
	return "", api.Errorf(api.KindInvalid, "%.80s has the wrong type", fmt.Sprint(v)).WithHint("write %s", want)
}
