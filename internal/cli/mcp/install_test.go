package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"hortus.dev/api"
)

var server = local{Command: "/bin/hortus", Args: []string{"mcp"}}

const entry = `{
      "command": "/bin/hortus",
      "args": [
        "mcp"
      ]
    }`

func TestMergeJSON(t *testing.T) {
	for _, c := range []struct {
		name, file, want string // want is "" for what is refused
		kind             api.Kind
	}{
		{"no file", "", "{\n  \"mcpServers\": {\n    \"hortus\": " + entry + "\n  }\n}\n", ""},
		{"an empty object", "{ }", "{\n  \"mcpServers\": {\n    \"hortus\": " + entry + "\n  }\n}", ""},
		{"other settings", "{\n  \"a\": 1.50\n}\n", "{\n  \"mcpServers\": {\n    \"hortus\": " + entry + "\n  },\n  \"a\": 1.50\n}\n", ""},
		{"no servers yet", "{\"b\":[],\"mcpServers\":{\n}}", "{\"b\":[],\"mcpServers\":{\n    \"hortus\": " + entry + "\n  }}", ""},
		{"another server", "{\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}", "{\n  \"mcpServers\": {\n    \"hortus\": " + entry + ",\n    \"x\": {}\n  }\n}", ""},
		{"in one line", `{"mcpServers":{"x":{"command":"y"}},"n":12345678901234567890}`, "{\"mcpServers\":{\n    \"hortus\": " + entry + ",\n    \"x\":{\"command\":\"y\"}},\"n\":12345678901234567890}", ""},
		{"a key that only looks like it", `{"x":"{\"mcpServers\":{}}"}`, "{\n  \"mcpServers\": {\n    \"hortus\": " + entry + "\n  },\n  \"x\":\"{\\\"mcpServers\\\":{}}\"}", ""},
		{"ours already", `{"mcpServers":{"hortus":{"args":["mcp"],"command":"/bin/hortus"}}}`, `{"mcpServers":{"hortus":{"args":["mcp"],"command":"/bin/hortus"}}}`, ""},
		{"another of our name", `{"mcpServers":{"hortus":{"command":"/bin/hortus","args":["mcp"],"env":{"A":"b"}}}}`, "", api.KindExists},
		{"comments", "// mine\n{}", "", api.KindInvalid},
		{"a comma too many", `{"a":1,}`, "", api.KindInvalid},
		{"a half", `{"mcpServers":{`, "", api.KindInvalid},
		{"a list", `[]`, "", api.KindInvalid},
		{"servers that are a list", `{"mcpServers":[]}`, "", api.KindInvalid},
		{"servers that are null", `{"mcpServers":null}`, "", api.KindInvalid},
	} {
		got, err := target{path: "f", keys: []string{"mcpServers"}, entry: server}.merge([]byte(c.file))
		if string(got) != c.want || api.KindOf(err) != c.kind {
			t.Errorf("%s:\n%s\n%v, want %q:\n%s", c.name, got, err, c.kind, c.want)
		}
	}
}

func TestMergeTOML(t *testing.T) {
	const own = "[mcp_servers.hortus]\ncommand = '/bin/hortus'\nargs = ['mcp']\n"
	for _, c := range []struct {
		name, file, want string
		kind             api.Kind
	}{
		{"no file", "", own, ""},
		{"other settings", "# mine\nmodel = \"x\"\n\n[mcp_servers.other] # theirs\ncommand = \"y\"\n", "# mine\nmodel = \"x\"\n\n[mcp_servers.other] # theirs\ncommand = \"y\"\n\n" + own, ""},
		{"no end of line", "[a]\nb = 2001-01-01", "[a]\nb = 2001-01-01\n\n" + own, ""},
		{"ours already", "[mcp_servers.hortus]\nargs = [\"mcp\"]\ncommand = \"/bin/hortus\"\n", "[mcp_servers.hortus]\nargs = [\"mcp\"]\ncommand = \"/bin/hortus\"\n", ""},
		{"another of our name", "[mcp_servers.hortus]\ncommand = \"x\"\n", "", api.KindExists},
		{"an inline table", "mcp_servers = { other = { command = \"y\" } }\n", "", api.KindInvalid},
		{"no table", "mcp_servers = 3\n", "", api.KindInvalid},
		{"no TOML", "[a\n", "", api.KindInvalid},
	} {
		got, err := target{path: "f", keys: []string{"mcp_servers"}, toml: true, entry: server}.merge([]byte(c.file))
		if string(got) != c.want || api.KindOf(err) != c.kind {
			t.Errorf("%s:\n%s\n%v, want %q:\n%s", c.name, got, err, c.kind, c.want)
		}
	}
}

// TestWrite: a link stays one, and the permissions stay as they were.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	for _, err := range []error{os.WriteFile(file, []byte("old"), 0o640), os.Symlink("file", link), write(link, []byte("new")), write(filepath.Join(dir, "a/b"), nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, _ := os.ReadFile(file)
	st, err := os.Stat(file)
	if l, lerr := os.Readlink(link); string(got) != "new" || err != nil || st.Mode().Perm() != 0o640 || l != "file" || lerr != nil {
		t.Errorf("%q, %v, %q, %v", got, st.Mode(), l, lerr)
	}
	if st, err := os.Stat(filepath.Join(dir, "a/b")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("a new file: %v, %v", st, err)
	}
}

// FuzzMerge: what is written is what was there and the server, in both formats.
func FuzzMerge(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":{"b":[1,"}"]},"mcp":{"servers":{"x":1}}}`, `{"mcp":{"servers":{}},"mcp":{"servers":{"y":2}}}`, "a = 1\n[mcp]\nb = 2\n", "[[mcp]]\n", "mcp.x.y = 1", "{\"mcp\" \n: {}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, c := range []struct {
			target
			parse func([]byte, any) error
		}{
			{target{keys: []string{"mcp", "servers"}, entry: server}, json.Unmarshal},
			{target{keys: []string{"mcp"}, toml: true, entry: server}, func(b []byte, v any) error { return toml.Unmarshal(b, v) }},
		} {
			out, err := c.merge(file)
			if err != nil {
				if out != nil && !bytes.Equal(out, file) {
					t.Fatalf("refused, but changed: %q", out)
				}
				continue
			}
			var before, after map[string]any
			if len(bytes.TrimSpace(file)) > 0 {
				if err := c.parse(file, &before); err != nil {
					t.Fatalf("%q was taken: %v", file, err)
				}
			}
			if err := c.parse(out, &after); err != nil {
				t.Fatalf("%q became %q: %v", file, out, err)
			}
			inner := after
			for _, k := range c.keys {
				inner, _ = inner[k].(map[string]any)
			}
			if inner[name] == nil {
				t.Fatalf("%q became %q, without the server", file, out)
			}
			for kept, v := range before {
				if kept != c.keys[0] && !reflect.DeepEqual(after[kept], v) && !strings.Contains(string(file), "nan") {
					t.Fatalf("%q became %q: %s is another", file, out, kept)
				}
			}
			if again, err := c.merge(out); err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%q is added again: %q, %v", out, again, err)
			}
		}
	})
}
