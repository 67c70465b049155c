package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// environ is an environment.
type environ map[string]string

func (e environ) get(name string) string { return e[name] }

// write makes a configuration file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	const file = "log-level = 'warn'\nquiet = true\n\n[sandbox]\nmemory = \"256M\" # a comment\ncpus = 0.5\npids = 64\ndisk = 1048576\n" +
		"isolation = \"container\"\nttl = \"2m\"\ntask.x = 1\n"
	good := strings.ReplaceAll(file, "task.x = 1\n", "\n[task]\nattempts = 5\n[daemon]\nidle = 0\n")
	for _, c := range []struct {
		name, key, file, env string
		want                 string
		origin               OriginKind
		line                 int
	}{
		{"default", "sandbox.memory", "", "", "1GiB", FromDefault, 0},
		{"file", "sandbox.memory", good, "", "256M", FromFile, 5},
		{"env over file", "sandbox.memory", good, "64M", "64M", FromEnv, 0},
		{"env over default", "sandbox.memory", "", "64M", "64M", FromEnv, 0},
		{"string", "log-level", good, "", "warn", FromFile, 1},
		{"bool", "quiet", good, "", "true", FromFile, 2},
		{"bool from env", "quiet", good, "0", "false", FromEnv, 0},
		{"float", "sandbox.cpus", good, "", "0.5", FromFile, 6},
		{"integer", "sandbox.pids", good, "", "64", FromFile, 7},
		{"bytes", "sandbox.disk", good, "", "1048576", FromFile, 8},
		{"second table", "task.attempts", good, "", "5", FromFile, 13},
		{"zero", "daemon.idle", good, "", "0", FromFile, 15},
		{"never", "daemon.idle", good, "never", "never", FromEnv, 0},
		{"inline table", "sandbox.memory", "\nsandbox = { memory = '1K' }", "", "1K", FromFile, 2},
		{"dotted", "sandbox.memory", "\n\nsandbox.memory = '1K'", "", "1K", FromFile, 3},
		{"quoted key", "sandbox.memory", "['sandbox']\n\"memory\" = '1K'", "", "1K", FromFile, 2},
		{"nothing in the variable", "sandbox.memory", good, "", "256M", FromFile, 5},
		{"no default", "sandbox.cpu-time", "", "", "", FromDefault, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.file)
			env := environ{}
			for _, s := range Settings() {
				if s.Key == c.key {
					env[s.Env] = c.env
				}
			}
			conf, err := Load(Source{Getenv: env.get, File: path, UID: 1})
			if err != nil {
				t.Fatal(err)
			}
			v := conf.Get(c.key)
			if v.Text != c.want || v.Origin.Kind != c.origin || v.Origin.Line != c.line {
				t.Errorf("%q from %s; want %q from %s, line %d", v.Text, v.Origin, c.want, c.origin, c.line)
			}
			if c.origin == FromFile && v.Origin.String() != "file "+place(path, c.line) {
				t.Errorf("origin %s", v.Origin)
			}
		})
	}
}

func TestWhereTheFileIs(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		src  Source
		env  environ
		path string
		data string
	}{
		{Source{UID: 0, OS: "linux"}, environ{"XDG_CONFIG_HOME": "/x", "HOME": "/root"}, "/etc/hortus/config.toml", "/var/lib/hortus"},
		{Source{UID: 7, OS: "linux"}, environ{"HOME": "/home/u"}, "/home/u/.config/hortus/config.toml", "/home/u/.local/share/hortus"},
		{Source{UID: 7, OS: "darwin"}, environ{"HOME": "/Users/u"}, "/Users/u/.config/hortus/config.toml", "/Users/u/.local/share/hortus"},
		{Source{UID: 7, OS: "linux"}, environ{"HOME": "/home/u", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c/hortus/config.toml", "/d/hortus"},
		{Source{UID: 7, OS: "linux"}, environ{"HOME": "/home/u", "XDG_CONFIG_HOME": "c", "XDG_DATA_HOME": "d"}, "/home/u/.config/hortus/config.toml", "/home/u/.local/share/hortus"},
		{Source{UID: -1, OS: "windows"}, environ{"APPDATA": "/a", "LOCALAPPDATA": "/l"}, "/a/hortus/config.toml", "/l/hortus"},
		{Source{UID: 7, OS: "linux"}, environ{}, "", ""},
	} {
		c.src.Getenv = c.env.get
		if got := DefaultPath(c.src); got != c.path {
			t.Errorf("%v: file %q, want %q", c.env, got, c.path)
		}
		got, err := DefaultDataDir(c.src)
		if got != c.data || (err != nil) != (c.data == "") {
			t.Errorf("%v: data in %q, %v; want %q", c.env, got, err, c.data)
		}
	}
	// The default file may be missing, a named one may not.
	conf, err := Load(Source{UID: 7, Getenv: environ{"HOME": dir}.get})
	if err != nil || conf.Found || conf.Path != filepath.Join(dir, ".config/hortus/config.toml") {
		t.Errorf("%+v, %v", conf, err)
	}
	if conf.Get("data-dir").Text != filepath.Join(dir, ".local/share/hortus") {
		t.Errorf("data in %q", conf.Get("data-dir").Text)
	}
	missing := filepath.Join(dir, "none.toml")
	for _, src := range []Source{{File: missing}, {Getenv: environ{"HORTUS_CONFIG": missing}.get}} {
		if _, err := Load(src); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), missing) {
			t.Errorf("a file that is named and missing: %v", err)
		}
	}
	path := write(t, "data-dir = 'data'\n")
	conf, err = Load(Source{Getenv: environ{"HORTUS_CONFIG": path}.get})
	if err != nil || !conf.Found || conf.Get("data-dir").Text != filepath.Join(filepath.Dir(path), "data") {
		t.Errorf("a path that is relative to the file: %+v, %v", conf, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Source{File: path}); api.KindOf(err) != api.KindDenied {
		t.Errorf("a file that everybody may write: %v", err)
	}
}

func TestErrorsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ file, line, says, hint string }{
		{"\nlog-lvel = 'info'", ":2", `"log-lvel"`, "log-level"},
		{"[sandbox]\n\nmemroy = '1G'", ":3", `"sandbox.memroy"`, "memory in [sandbox]"},
		{"memory = '1G'", ":1", `"memory"`, "memory in [sandbox]"},
		{"[task]\nmemory = '1G'", ":2", `"task.memory"`, "memory in [sandbox]"},
		{"[sandboxes]", ":1", `"sandboxes"`, ""},
		{"[[sandbox]]\nmemory='1G'", ":1", `"sandbox"`, ""},
		{"zzzzzzzzzzzz = 1", ":1", `"zzzzzzzzzzzz"`, "config show"},
		{"[sandbox]\nisolation = 'contaner'", ":2", "one of auto, gvisor, container, docker, microvm, wasm, process, e2b, daytona, kubernetes", "container"},
		{"[sandbox]\nisolation = 7", ":2", "sandbox.isolation", "a string"},
		{"log-level = 'verbose'", ":1", "one of debug, info, warn, error", ""},
		{"quiet = 'yes'", ":1", "quiet", "boolean"},
		{"[sandbox]\nmemory = '12Q'", ":2", "not a size", "512M"},
		{"[sandbox]\nmemory = 0", ":2", "not above 0", ""},
		{"[sandbox]\nttl = 30", ":2", "sandbox.ttl", `"30s"`},
		{"[sandbox]\nttl = '48h'", ":2", "at most 24h", ""},
		{"[sandbox]\npids = 1", ":2", "from 64 to", ""},
		{"[sandbox]\ncpus = -1", ":2", "above 0", ""},
		{"[kubernetes]\ncpu-overcommit = 0.5", ":2", "a number from 1 to 10000", ""},
		{"[sandbox]\ncpus = nan", ":2", "sandbox.cpus", "a number"},
		{"[task]\nattempts = 11", ":2", "from 1 to 10", ""},
		{"[task]\nattempts = [3]", ":2", "task.attempts", "a whole number"},
		{"[task]\nmodel = ''", ":2", "a name", ""},
		{"data-dir = '~/x'", ":1", "not expanded", "absolute path"},
		{"sandbox = 3", ":1", `"sandbox"`, ""},
		{"a = ", ":1", "", ""},
		{"quiet = true\nquiet = false", ":2", "", ""},
	} {
		path := write(t, c.file)
		_, err := Load(Source{File: path})
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), path+c.line) || !strings.Contains(err.Error(), c.says) || !strings.Contains(api.HintOf(err), c.hint) {
			t.Errorf("%q: %v (%s)", c.file, err, api.HintOf(err))
		}
	}
	_, err := Load(Source{UID: 1, Getenv: environ{"HORTUS_MEMORY": "12Q"}.get})
	if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "HORTUS_MEMORY") || api.HintOf(err) == "" {
		t.Errorf("a bad variable: %v", err)
	}
	if _, err := Load(Source{File: write(t, strings.Repeat("#", maxFile+1))}); err == nil {
		t.Error("a file without an end was read")
	}
}

// TestSettings holds the table together: keys, variables and defaults that make
// sense.
func TestSettings(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Settings() {
		for _, name := range []string{s.Key, s.Env} {
			if name == "" || seen[name] {
				t.Errorf("%q: no name or one that stands twice", name)
			}
			seen[name] = true
		}
		if s.Default != "" {
			if e := s.Check(s.Default); e != nil {
				t.Errorf("%s: the default is refused: %v", s.Key, e)
			}
		}
		if s.Help == "" || !strings.HasPrefix(s.Env, "HORTUS_") {
			t.Errorf("%+v", s)
		}
	}
	if b, err := json.Marshal(Value{Setting: Settings()[0], Origin: Origin{Kind: FromFlag, Name: "x"}}); err != nil || !strings.Contains(string(b), `"origin":{"kind":"flag","name":"x"}`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"65536": 65536, "512M": 512 << 20, "1GiB": 1 << 30, "1g": 1 << 30, "1.5K": 1536, " 2 MiB ": 2 << 20, "7B": 7, "1TB": 1 << 40,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "M", "-1M", "0", "0.0001", "1X", "1e3", "1MM", "NaN", "Inf", "1.2.3", "9999999T", "0x10"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d; want an error", in, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0d1s": time.Second} {
		if d, err := ParseDuration(in); err != nil || d != want {
			t.Errorf("%s = %v, %v", in, d, err)
		}
	}
	for _, in := range []string{"", "30", "-1s", "0s", "0d", "1us", "x", "d", "-1d", "1d-1h", "1d1d", "99999999999d", "106751d23h48m"} {
		if d, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v; want an error", in, d)
		}
	}
	for in, want := range map[string]time.Duration{"never": -1, "0": 0, "3s": 3 * time.Second} {
		if d, err := ParseStay(in); err != nil || d != want {
			t.Errorf("ParseStay(%q) = %v, %v", in, d, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("log-level = 'warn'\n[sandbox]\nmemory = \"256M\"\ncpus = 0.5\n")
	f.Add("sandbox = { memory = '1K', ttl = '5m' }\ntask.attempts = 0x3\ndata-dir = '''/x'''\n")
	f.Add("[[sandbox]]\n\"a\\u0062\" = [1, {x=1}]\n")
	f.Add("quiet = true\nquiet = false")
	f.Add("[forge.'a.b:1']\nkind='gitea'\ntoken-env='X'\n[policy]\nallow=['a','b']\nprotected=[]")
	f.Add("forge = {'a\"b' = {kind = 'gitea'}}\nforge.x.kind = 'github'")
	f.Add("sandbox.memory.x = 1979-05-27T07:32:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse("/f", []byte(text))
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatalf("%v", err)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		known := Settings()
		for key := range got {
			if host, name, ok := splitForge(key); ok {
				if s, ok := forgeSetting([]string{"forge", host, name}); ok && checkHost(host) == nil && s.Key == key {
					known = append(known, s)
				}
			}
		}
		for _, s := range known {
			e, ok := got[s.Key]
			if ok && (s.Check(e.text) != nil || e.line < 1 || e.line > lines) {
				t.Fatalf("%s = %+v in %q", s.Key, e, text)
			}
			delete(got, s.Key)
		}
		if len(got) > 0 {
			t.Fatalf("accepted %v", got)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1", "512M", "1.5GiB", "1e9", "99999999999999999999", "-1", "1 k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSize(s); err == nil && n < 1 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"30s", "1h", "-1s", "0", "9999999h", "1.5m", "7d", "106751d24h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && d < time.Millisecond {
			t.Fatalf("ParseDuration(%q) = %v", s, d)
		}
	})
}

// TestRoom reads a size that may be 0.
func TestRoom(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, `"0"`: 0, `"1MiB"`: 1 << 20, "5": 5, "-1": -1, `""`: -1} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte("[egress]\ncache-size = "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Source{File: path})
		if err != nil {
			if want >= 0 {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		r := Reader{Config: c}
		if got := r.Room("egress.cache-size"); got != want || r.Err != nil {
			t.Errorf("%s: %d, %v", text, got, r.Err)
		}
	}
}
