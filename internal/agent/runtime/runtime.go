package runtime

import (
	"cmp"
	"embed"
	"maps"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Own is the name of the agent that Hortus has itself.
const Own = "hortus"

//go:embed packages
var packages embed.FS

// Runtime is an agent.
type Runtime struct {
	// Name is what people call it; Package is the npm package and Version its version.
	Name, Package, Version string
	// Shares is the agent whose installation it uses, because it is the same program; empty for its own.
	Shares string
	// Serves is true if the command is a server with the API of opencode, see package opencode. Its password is in
	// [Password]. Without it the command speaks the Agent Client Protocol.
	Serves bool
	// Presets are the kinds of servers that it can ask, the default first.
	Presets []Preset
	// Install are shell commands after the installation of the packages, in their directory. They end with an error if the
	// agent cannot be started.
	Install string
	// Args is the command, and Env are its variables. "{root}" is the directory of the packages; see Launch.
	Args []string
	Env  map[string]string
	// Files are the contents of files below the home directory.
	Files map[string]string
	// Mode is the mode in which the agent asks for nothing and starts no sandbox; empty if it has no modes.
	Mode string
	// Obeys are paths in a repository that name what the agent runs, although it is told not to read them. It is not used
	// on a repository that has one.
	Obeys []string
	// Meta is sent with each session.
	Meta map[string]any
}

// Password is the variable from which a server reads its password.
const Password = "OPENCODE_SERVER_PASSWORD"

// Preset is a kind of server with models.
type Preset struct {
	// Server is the API that the server speaks, which is also the name of the preset of its secret.
	Server secrets.Model
	// Key is the variable that has the key.
	Key string
	// Model is the model if nobody names one.
	Model string
	// Env are variables. "{url}" is the address of the server as vendors write it, "{model}" the model and "{key}" the
	// value of Key.
	Env map[string]string
}

// all is the catalogue.
func all() []Runtime {
	return []Runtime{opencode(), opencodeServer(), claude(), codex(), copilot(), gemini(), qwen()}
}

// Names are the names of the agents, with Hortus's own first.
func Names() []string {
	names := []string{Own}
	for _, r := range all() {
		names = append(names, r.Name)
	}
	return names
}

// Find returns an agent that is not Hortus's own.
func Find(name string) (Runtime, error) {
	for _, r := range all() {
		if r.Name == name {
			return r, nil
		}
	}
	return Runtime{}, api.Errorf(api.KindInvalid, "unknown agent %.40q", name).WithHint("use one of %s", strings.Join(Names(), ", "))
}

// Label names the agent with its version.
func (r Runtime) Label() string { return r.Name + " (" + r.Package + " " + r.Version + ")" }

// ID names what is installed, with its version, as a part of a path.
func (r Runtime) ID() string { return r.installed() + "-" + r.Version }

// installed is the agent whose packages are installed.
func (r Runtime) installed() string { return cmp.Or(r.Shares, r.Name) }

// Packages are package.json and package-lock.json.
func (r Runtime) Packages() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := packages.ReadFile(path.Join("packages", r.installed(), name))
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "the packages of the agent %s: %w", r.Name, err)
		}
		out[name] = b
	}
	return out, nil
}

// maxModel is the longest name of a model, in bytes.
const maxModel = 128

// Choose returns the preset for a model: "", the name of a server ("anthropic"), or "anthropic:MODEL".
func (r Runtime) Choose(model string) (Preset, error) {
	server, name, named := strings.Cut(model, ":")
	if named && (name == "" || len(name) > maxModel || strings.Trim(name, modelLetters) != "") {
		return Preset{}, api.Errorf(api.KindInvalid, "%.80q is no name of a model", name)
	}
	if model == "" {
		return r.Presets[0], nil
	}
	var can []string
	for _, p := range r.Presets {
		if string(p.Server) == server {
			p.Model = cmp.Or(name, p.Model)
			return p, nil
		}
		can = append(can, string(p.Server)+":MODEL")
	}
	return Preset{}, api.Errorf(api.KindInvalid, "the agent %s cannot use the model %.80q", r.Name, model).
		WithHint("use --model %s", strings.Join(can, " or "))
}

// modelLetters are the characters of names of models: they mean nothing in JSON and TOML.
const modelLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_/:@"

// Place is where an agent is started.
type Place struct {
	// Root is the directory of its packages, Home its home directory.
	Root, Home string
	// URL is the address of the server.
	URL string
}

// Launch is how an agent is started.
type Launch struct {
	Args  []string
	Env   map[string]string
	Files map[string]string // absolute paths
}

// script makes the home directory and the variables with the key, which only the sandbox has, and becomes the agent. Its
// arguments are the home directory, the number of variables, these ("NAME=text with {key}"), and the command.
const script = `home=$1; key=$2; n=$3; shift 3
mkdir -p "$home" || exit 1
while [ "$n" -gt 0 ]; do
  name=${1%%=*}; text=${1#*=}; shift; n=$((n-1))
  eval "value=\${$key-}"
  out=
  while :; do case "$text" in *'{key}'*) out=$out${text%%'{key}'*}$value; text=${text#*'{key}'} ;; *) break ;; esac; done
  export "$name=$out$text"
done
exec "$@"`

// Launch returns how the agent is started.
func (r Runtime) Launch(p Preset, at Place) Launch {
	fill := strings.NewReplacer("{root}", at.Root, "{home}", at.Home, "{url}", strings.TrimRight(at.URL, "/"), "{model}", p.Model)
	env := map[string]string{"HOME": at.Home}
	var keyed []string
	for _, vars := range []map[string]string{r.Env, p.Env} {
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			value := fill.Replace(vars[name])
			if strings.Contains(value, "{key}") {
				keyed = append(keyed, name+"="+value)
				continue
			}
			env[name] = value
		}
	}
	l := Launch{Args: []string{"sh", "-c", script, "sh", at.Home, p.Key, count(keyed)}, Env: env, Files: map[string]string{}}
	l.Args = append(l.Args, keyed...)
	for _, arg := range r.Args {
		l.Args = append(l.Args, fill.Replace(arg))
	}
	for name, text := range r.Files {
		l.Files[path.Join(at.Home, name)] = fill.Replace(text)
	}
	return l
}

func count(list []string) string {
	return string(rune('0' + len(list))) // no entry has ten
}
