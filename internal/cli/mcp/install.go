package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

type installCmd struct {
	Client  string `arg:"" enum:"claude-code,codex,cursor,vscode,opencode,gemini" help:"claude-code, codex, cursor, vscode, opencode or gemini."`
	Write   bool   `help:"Write the configuration into the file, which keeps everything else."`
	Project bool   `help:"Use the file of the project in the current directory instead of the user's."`
}

// Help returns what the first line of help does not.
func (installCmd) Help() string {
	return `The configuration starts this program with --data-dir, --config and --host as they are given here. A server "hortus" with
another configuration is not replaced. Example:

    hortus mcp install claude-code --write`
}

// name is that of the server in the files of clients.
const name = "hortus"

// target is the file of a client, and where the servers are in it.
type target struct {
	path string
	// keys lead to the object with the servers. A file in TOML has one.
	keys []string
	toml bool
	// entry describes the server.
	entry any
}

// local is a server that most clients start.
type local struct {
	Type    string   `json:"type,omitempty" toml:"type,omitempty"`
	Command string   `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
}

// openCode is a server that opencode starts.
type openCode struct {
	Type    string   `json:"type"`
	Command []string `json:"command"`
	// Enabled is of version 1 alone.
	Enabled bool `json:"enabled,omitempty"`
}

// Run prints or writes the configuration of a client.
func (c *installCmd) Run(a *app.App) error {
	program, err := os.Executable()
	if err != nil {
		return api.Errorf(api.KindInternal, "find this program: %w", err)
	}
	command := append([]string{program}, arguments(a)...)
	t, err := c.target(a, command)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return api.Errorf(api.KindDenied, "read the configuration: %w", err)
	}
	if c.Client == "opencode" && usesServers(old) {
		t.keys = append(t.keys, "servers") // version 2 has this form too
		t.entry = openCode{Type: "local", Command: command}
	}
	own, err := t.merge(nil)
	if err != nil {
		return err
	}
	if !c.Write {
		if a.Flags.JSON {
			return a.JSON(map[string]string{"path": t.path, "content": string(own)})
		}
		a.Note("add this to %s, or let --write do it:", t.path)
		_, err = a.Env.Stdout.Write(own)
		return err
	}
	merged, err := t.merge(old)
	if err != nil {
		return err
	}
	if bytes.Equal(merged, old) {
		a.Note("%s has it already", t.path)
		return nil
	}
	if err := write(t.path, merged); err != nil {
		return api.Errorf(api.KindDenied, "write the configuration: %w", err)
	}
	a.Note("added the server %s to %s; restart the client", name, t.path)
	return nil
}

// arguments are those of the command that a client starts.
func arguments(a *app.App) []string {
	out := []string{"mcp"}
	for _, f := range []struct {
		flag, value string
		file        bool
	}{{"data-dir", a.Flags.DataDir, true}, {"config", a.Flags.Config, true}, {"host", a.Flags.Host, false}} {
		if f.value == "" {
			continue
		}
		if abs, err := filepath.Abs(f.value); f.file && err == nil {
			f.value = abs // a client starts it elsewhere
		}
		out = append(out, "--"+f.flag, f.value)
	}
	return out
}

// target returns the file of the client. The forms are those of the clients' own documentation.
func (c *installCmd) target(a *app.App, command []string) (target, error) {
	home := a.Getenv("HOME")
	if runtime.GOOS == "windows" {
		home = a.Getenv("USERPROFILE")
	}
	if !filepath.IsAbs(home) && !c.Project {
		return target{}, api.Errorf(api.KindInvalid, "no home directory for the configuration of %s", c.Client).WithHint("use --project for the file of a project")
	}
	// dir is the user's directory of the client, which a variable can name.
	dir := func(variable, usual string) string {
		if d := a.Getenv(variable); variable != "" && filepath.IsAbs(d) {
			return d
		}
		return filepath.Join(home, usual)
	}
	file := func(user, project string) string {
		if c.Project {
			return project
		}
		return user
	}
	entry := local{Command: command[0], Args: command[1:]}
	switch c.Client {
	case "codex":
		return target{file(filepath.Join(dir("CODEX_HOME", ".codex"), "config.toml"), ".codex/config.toml"), []string{"mcp_servers"}, true, entry}, nil
	case "cursor":
		return target{file(filepath.Join(home, ".cursor/mcp.json"), ".cursor/mcp.json"), []string{"mcpServers"}, false, entry}, nil
	case "gemini":
		return target{file(filepath.Join(home, ".gemini/settings.json"), ".gemini/settings.json"), []string{"mcpServers"}, false, entry}, nil
	case "vscode":
		entry.Type = "stdio"
		user := filepath.Join(dir("XDG_CONFIG_HOME", ".config"), "Code/User/mcp.json")
		switch runtime.GOOS {
		case "darwin":
			user = filepath.Join(home, "Library/Application Support/Code/User/mcp.json")
		case "windows":
			user = filepath.Join(dir("APPDATA", "AppData/Roaming"), "Code/User/mcp.json")
		}
		return target{file(user, ".vscode/mcp.json"), []string{"servers"}, false, entry}, nil
	case "opencode":
		path := file(filepath.Join(dir("XDG_CONFIG_HOME", ".config"), "opencode/opencode.json"), "opencode.json")
		if _, err := os.Stat(path + "c"); err == nil {
			path += "c"
		}
		return target{path, []string{"mcp"}, false, openCode{"local", command, true}}, nil
	}
	entry.Type = "stdio"
	user := filepath.Join(home, ".claude.json")
	if d := a.Getenv("CLAUDE_CONFIG_DIR"); filepath.IsAbs(d) {
		user = filepath.Join(d, ".claude.json")
	}
	return target{file(user, ".mcp.json"), []string{"mcpServers"}, false, entry}, nil
}

// usesServers reports whether opencode's file has its servers one level deeper, as version 2 writes them.
func usesServers(file []byte) bool {
	var f struct {
		MCP struct {
			Servers map[string]json.RawMessage `json:"servers"`
		} `json:"mcp"`
	}
	return json.Unmarshal(file, &f) == nil && f.MCP.Servers != nil
}

// merge adds the server to a file, which may be empty.
func (t target) merge(file []byte) (out []byte, err error) {
	if t.toml {
		out, err = t.mergeTOML(file)
	} else {
		out, err = t.mergeJSON(file)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// unreadable is the error for a file that is left as it is.
func (t target) unreadable(err error) error {
	return api.Errorf(api.KindInvalid, "%s cannot be read, and was not changed: %w", t.path, err).
		WithHint("it may have comments; add what hortus mcp install prints without --write")
}

// taken compares a server of our name that the file has with ours.
func (t target) taken(have any) error {
	plain := func(v any) (out any) {
		if b, err := json.Marshal(v); err == nil {
			_ = json.Unmarshal(b, &out) // what was written a line above
		}
		return out
	}
	if reflect.DeepEqual(plain(have), plain(t.entry)) {
		return nil
	}
	return api.Errorf(api.KindExists, "%s has another server %s, and was not changed", t.path, name).WithHint("remove it there first")
}

func (t target) mergeTOML(file []byte) ([]byte, error) {
	parse := func(b []byte) (all map[string]any, err error) { return all, toml.Unmarshal(b, &all) }
	all, err := parse(file)
	if err != nil {
		return nil, t.unreadable(err)
	}
	if servers, ok := all[t.keys[0]].(map[string]any); ok && servers[name] != nil {
		return file, t.taken(servers[name])
	}
	own, err := toml.Marshal(map[string]any{t.keys[0]: map[string]any{name: t.entry}})
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "write TOML: %w", err)
	}
	// Without the header of the outer table, which the file may have.
	own = bytes.TrimPrefix(own, []byte("["+t.keys[0]+"]\n"))
	out := slices.Clone(file)
	if len(out) > 0 {
		out = append(bytes.TrimRight(out, "\n"), "\n\n"...)
	}
	out = append(out, own...)
	after, err := parse(out)
	if err != nil { // the outer table has a form that cannot be added to
		return nil, t.unreadable(err)
	}
	// Nothing but the server is different.
	if servers, ok := after[t.keys[0]].(map[string]any); ok {
		if delete(servers, name); len(servers) == 0 && all[t.keys[0]] == nil {
			delete(after, t.keys[0])
		}
	}
	if len(all)+len(after) > 0 && !reflect.DeepEqual(all, after) {
		return nil, t.unreadable(errors.New("the server cannot be added at its end"))
	}
	return out, nil
}

// mergeJSON inserts the server into the text of the file, of which everything else stays as it is.
func (t target) mergeJSON(file []byte) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("{}\n")
	}
	var all any
	if err := json.Unmarshal(file, &all); err != nil {
		return nil, t.unreadable(err)
	}
	var object map[string]any
	at, depth := 0, 0 // where the members of the innermost object that is there begin, and how deep it is
	for ; ; depth++ {
		var ok bool
		if object, ok = all.(map[string]any); !ok {
			return nil, t.unreadable(fmt.Errorf("%s is not an object", strings.Join(append([]string{"it"}, t.keys[:depth]...), ".")))
		}
		inner, err := membersAt(file[at:])
		if err != nil {
			return nil, t.unreadable(err)
		}
		at += inner
		if depth == len(t.keys) {
			break
		}
		value, err := valueOf(file[at:], t.keys[depth])
		if err != nil {
			return nil, t.unreadable(err)
		}
		if value < 0 {
			break
		}
		at += value
		all = object[t.keys[depth]]
	}
	if depth == len(t.keys) && object[name] != nil {
		return file, t.taken(object[name])
	}
	var member any = map[string]any{name: t.entry}
	for _, k := range slices.Backward(t.keys[depth:]) {
		member = map[string]any{k: member}
	}
	indent := strings.Repeat("  ", depth)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, "  ")
	if err := enc.Encode(member); err != nil {
		return nil, api.Errorf(api.KindInternal, "write JSON: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), "{"), "\n"+indent+"}")
	if len(object) > 0 {
		text += ","
		if rest := file[at:]; rest[0] != '\n' && rest[0] != '\r' {
			text += "\n" + indent + "  "
			at += len(rest) - len(bytes.TrimLeft(rest, " \t"))
		}
	} else {
		text += "\n" + indent
		at, file = closed(file, at)
	}
	return slices.Concat(file[:at], []byte(text), file[at:]), nil
}

// closed removes the space in an empty object whose members would be at an offset.
func closed(file []byte, at int) (int, []byte) {
	rest := bytes.TrimLeft(file[at:], " \t\r\n")
	return at, slices.Concat(file[:at], rest)
}

// membersAt returns where the members of the object begin that a text begins with, in bytes.
func membersAt(text []byte) (int, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	_, err := dec.Token()
	return int(dec.InputOffset()), err
}

// valueOf returns where the value of a key begins, in a text that begins with the members of an object; -1 if there is none. Of
// several the last counts, as it does for those who read the file.
func valueOf(members []byte, key string) (at int, err error) {
	const open = "{"
	dec := json.NewDecoder(io.MultiReader(strings.NewReader(open), bytes.NewReader(members)))
	if _, err := dec.Token(); err != nil {
		return 0, err
	}
	at = -1
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return 0, err
		}
		here := int(dec.InputOffset()) - len(open)
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			return 0, err
		}
		if k == key {
			colon := bytes.IndexByte(members[here:], ':') + 1
			at = here + colon
		}
	}
	return at, nil
}

// write replaces a file whole or not at all, with its permissions. A link leads to the same file as before.
func write(path string, content []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := os.FileMode(0o600) // others have secrets in such files
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".hortus-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
