package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"hortus.dev/api"
)

// OriginKind is the sort of place that a value comes from.
type OriginKind string

const (
	FromDefault OriginKind = "default"
	FromFile    OriginKind = "file"
	FromEnv     OriginKind = "env"
	FromFlag    OriginKind = "flag"
)

// Origin is where a value comes from.
type Origin struct {
	Kind OriginKind `json:"kind"`
	// Name is the variable or the flag.
	Name string `json:"name,omitempty"`
	// Path and Line are the place in the file.
	Path string `json:"path,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String writes an origin for people.
func (o Origin) String() string {
	switch o.Kind {
	case FromFile:
		return fmt.Sprintf("file %s:%d", o.Path, o.Line)
	case FromEnv:
		return "env " + o.Name
	case FromFlag:
		return "flag --" + o.Name
	}
	return string(FromDefault)
}

// Value is a setting's value with its origin.
type Value struct {
	Setting Setting
	Text    string
	Origin  Origin
}

// MarshalJSON writes what `hortus config show --json` shows of a value.
func (v Value) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Origin Origin `json:"origin"`
		Env    string `json:"env,omitempty"`
		Flag   string `json:"flag,omitempty"`
		Help   string `json:"help"`
	}{v.Setting.Key, v.Text, v.Origin, v.Setting.Env, v.Setting.Flag, v.Setting.Help})
}

// Source is what a configuration is read from.
type Source struct {
	// Getenv gives a variable; one that is set to nothing is as good as none.
	Getenv func(string) string
	// File names the file; empty means HORTUS_CONFIG or the default one, and
	// only the default one may be missing.
	File string
	// UID is the user's number; 0 has other defaults.
	UID int
	// OS is the operating system in Go's words; empty means this one.
	OS string
}

// Config is the environment and the file, read and checked. It does not change;
// several goroutines may read it.
type Config struct {
	// Path is the file's name, Found whether there is one.
	Path   string
	Found  bool
	values []Value
	forges []Value
}

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Load reads a configuration. Errors are of KindInvalid and name their place, but
// KindDenied for a file that everybody may write.
func Load(src Source) (*Config, error) {
	if src.Getenv == nil {
		src.Getenv = func(string) string { return "" }
	}
	if src.OS == "" {
		src.OS = runtime.GOOS
	}
	c := &Config{}
	var must bool
	c.Path, must = src.path()
	text, err := readFile(c.Path, must)
	if err != nil {
		return nil, err
	}
	var lines map[string]entry
	if text != nil {
		c.Found = true
		if lines, err = parse(c.Path, text); err != nil {
			return nil, err
		}
	}
	for _, s := range Settings() {
		v := Value{Setting: s, Text: s.Default, Origin: Origin{Kind: FromDefault}}
		if s.Key == "data-dir" {
			v.Text, _ = DefaultDataDir(src) // none is an error of who needs it
		}
		if e, ok := lines[s.Key]; ok {
			v.Text, v.Origin = e.text, Origin{Kind: FromFile, Path: c.Path, Line: e.line}
		}
		if text := src.Getenv(s.Env); text != "" {
			if s.Kind == Switch {
				text = truth(text)
			}
			if e := s.Check(text); e != nil {
				return nil, api.Errorf(api.KindInvalid, "%s: %s", s.Env, e.Message).WithHint("%s", e.Hint)
			}
			v.Text, v.Origin = text, Origin{Kind: FromEnv, Name: s.Env}
		}
		c.values = append(c.values, v)
	}
	c.forges = forgeValues(c.Path, lines)
	if _, err := c.Forges(); err != nil {
		return nil, err
	}
	return c, nil
}

// truth reads the ways in which a variable says yes or no.
func truth(text string) string {
	switch text {
	case "1", "t", "T", "TRUE", "True", "yes", "on":
		return "true"
	case "0", "f", "F", "FALSE", "False", "no", "off":
		return "false"
	}
	return text
}

// Get returns the value of a key of [Settings]. It panics for another.
func (c *Config) Get(key string) Value {
	for _, v := range c.values {
		if v.Setting.Key == key {
			return v
		}
	}
	panic("config: there is no setting " + key)
}

// ByEnv finds the setting that has a variable.
func (c *Config) ByEnv(name string) (Value, bool) {
	for _, v := range c.values {
		if v.Setting.Env == name {
			return v, true
		}
	}
	return Value{}, false
}

// All returns every value: those of [Settings] in their order, then those of forges.
func (c *Config) All() []Value { return slices.Concat(c.values, c.forges) }

// path names the file, and reports whether it must be there.
func (src Source) path() (string, bool) {
	if src.File != "" {
		return src.File, true
	}
	if p := src.Getenv("HORTUS_CONFIG"); p != "" {
		return p, true
	}
	return DefaultPath(src), false
}

// DefaultPath is the file that is read when none is named: /etc/hortus/config.toml
// for root, $XDG_CONFIG_HOME/hortus/config.toml or ~/.config/hortus/config.toml
// for others, %AppData%\hortus\config.toml on Windows. It is empty where there is
// no home directory.
func DefaultPath(src Source) string {
	if src.OS == "windows" {
		if d := src.Getenv("APPDATA"); d != "" {
			return filepath.Join(d, "hortus", "config.toml")
		}
		return ""
	}
	if src.UID == 0 {
		return "/etc/hortus/config.toml"
	}
	return src.home("XDG_CONFIG_HOME", ".config", "config.toml")
}

// DefaultDataDir is where state lives when nobody says otherwise: /var/lib/hortus
// for root, $XDG_DATA_HOME/hortus or ~/.local/share/hortus for others,
// %LocalAppData%\hortus on Windows.
func DefaultDataDir(src Source) (string, error) {
	if src.OS == "" {
		src.OS = runtime.GOOS
	}
	d := ""
	switch {
	case src.OS == "windows":
		if d = src.Getenv("LOCALAPPDATA"); d != "" {
			d = filepath.Join(d, "hortus")
		}
	case src.UID == 0:
		return "/var/lib/hortus", nil
	default:
		d = src.home("XDG_DATA_HOME", ".local/share", "")
	}
	if d == "" {
		return "", api.Errorf(api.KindInvalid, "no home directory for the data directory").
			WithHint("set one: --data-dir DIR")
	}
	return d, nil
}

// home returns a file below a directory of the XDG rules, "" if there is none.
func (src Source) home(xdg, below, name string) string {
	if d := src.Getenv(xdg); filepath.IsAbs(d) {
		return filepath.Join(d, "hortus", name)
	}
	if home := src.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, "hortus", name)
	}
	return ""
}

// readFile reads the file; nil when it need not be there and is not.
func readFile(path string, must bool) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "configuration: %w", err).WithHint("hortus config path shows which file is read")
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "configuration: %w", err)
	}
	// The file decides how untrusted code is held.
	if st.Mode().Perm()&0o002 != 0 && runtime.GOOS != "windows" && st.Mode().IsRegular() {
		return nil, api.Errorf(api.KindDenied, "every user can write the configuration %s", path).WithHint("chmod o-w %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "configuration: %w", err)
	case len(b) > maxFile:
		return nil, api.Errorf(api.KindInvalid, "the configuration %s has more than %d bytes", path, maxFile)
	case b == nil:
		b = []byte{}
	}
	return b, nil
}
