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
	// Obeys are paths in a repository that name what the agent runs, although it is instructed not to read them. It is not used
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

// Location is where an agent is started.
type Location struct {
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
func (r Runtime) Launch(p Preset, at Location) Launch {
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

// The variables from which programs of vendors read their keys.
const (
	anthropicKey = "ANTHROPIC_API_KEY"
	openaiKey    = "OPENAI_API_KEY"
	geminiKey    = "GEMINI_API_KEY"
)

// The models if nobody names one. Hortus's own agent asks those of Anthropic and OpenAI by default, too.
const (
	anthropicModel = "claude-sonnet-5-5"
	openaiModel    = "gpt-6.1-sol"
	geminiModel    = "gemini-3.1-pro-preview"
)

// node is how an agent is started that is a program for Node.js: its own Node.js is in the layer, since the one of the
// sandbox may be too old.
const node = "{root}/bin/node"

// withNode finds the Node.js of the architecture.
const withNode = `mkdir -p bin && for n in node_modules/node-linux-*/bin/node; do ln -sf "../$n" bin/node; done && bin/node --version`

func opencode() Runtime {
	config := func(npm, url, key string) map[string]string {
		return map[string]string{"OPENCODE_CONFIG_CONTENT": `{"share":"disabled","autoupdate":false,"snapshot":false,"enabled_providers":["hortus"],"model":"hortus/{model}","small_model":"hortus/{model}","permission":"allow",` +
			`"provider":{"hortus":{"npm":"` + npm + `","options":{"baseURL":"` + url + `","apiKey":"{env:` + key + `}"},"models":{"{model}":{"tool_call":true,"limit":{"context":200000,"output":32000}}}}}}`}
	}
	return Runtime{
		Name: "opencode", Package: "opencode-linux-x64-baseline", Version: "1.18.33",
		Presets: []Preset{
			{Server: secrets.Anthropic, Key: anthropicKey, Model: anthropicModel, Env: config("@ai-sdk/anthropic", "{url}/v1", anthropicKey)},
			{Server: secrets.OpenAI, Key: openaiKey, Model: openaiModel, Env: config("@ai-sdk/openai", "{url}", openaiKey)},
		},
		Install: `mkdir -p bin && chmod +x node_modules/opencode-linux-x64-baseline/bin/opencode && ln -sf ../node_modules/opencode-linux-x64-baseline/bin/opencode bin/opencode && bin/opencode --version`,
		Args:    []string{"{root}/bin/opencode", "acp"},
		// The repository's opencode.json and .opencode could name other servers, plugins and permissions.
		Env: map[string]string{
			"OPENCODE_DISABLE_PROJECT_CONFIG": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_SHARE": "1",
		},
		// It installs packages for plugins in each directory with a configuration, unless they seem to be there.
		Files: map[string]string{
			".config/opencode/package-lock.json":  `{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"1.18.33"}}}}`,
			".config/opencode/node_modules/.keep": "",
		},
	}
}

// opencodeServer is opencode as a server, which stays for later messages in the same sandbox.
func opencodeServer() Runtime {
	r := opencode()
	r.Shares, r.Name, r.Serves = r.Name, "opencode-server", true
	r.Args = []string{"{root}/bin/opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"}
	return r
}

func claude() Runtime {
	return Runtime{
		Name: "claude", Package: "@agentclientprotocol/claude-agent-acp", Version: "0.101.0",
		Presets: []Preset{{Server: secrets.Anthropic, Key: anthropicKey, Model: anthropicModel, Env: map[string]string{
			"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_MODEL": "{model}", "ANTHROPIC_SMALL_FAST_MODEL": "{model}", "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
		}}},
		Install: withNode,
		Args:    []string{node, "{root}/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"},
		Env: map[string]string{
			"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
			"DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
		},
		Mode: "bypassPermissions",
		// The repository's .claude could have hooks, which are commands, and variables.
		Meta: map[string]any{"claudeCode": map[string]any{"options": map[string]any{"settingSources": []string{"user"}, "promptSuggestions": false}}},
	}
}

func codex() Runtime {
	return Runtime{
		Name: "codex", Package: "@agentclientprotocol/codex-acp", Version: "2.6.0",
		Presets: []Preset{{Server: secrets.OpenAI, Key: openaiKey, Model: openaiModel, Env: map[string]string{
			"CODEX_CONFIG": `{"model":"{model}","model_provider":"hortus","sandbox_mode":"danger-full-access","approval_policy":"never","project_doc_max_bytes":0,` +
				`"check_for_update_on_startup":false,"analytics":{"enabled":false},"projects":{"/workspace":{"trust_level":"untrusted"}},` +
				`"model_providers":{"hortus":{"name":"hortus","base_url":"{url}","env_key":"OPENAI_API_KEY","wire_api":"responses"}}}`,
			"MODEL_PROVIDER": "hortus",
		}}},
		Install: withNode,
		Args:    []string{node, "{root}/node_modules/@agentclientprotocol/codex-acp/dist/index.js"},
		Env:     map[string]string{"INITIAL_AGENT_MODE": "agent-full-access", "NO_BROWSER": "1"},
		// In another mode it writes nothing and still ends its turn. In this one it trusts the repository, also with the
		// configuration above.
		Mode: "agent-full-access", Obeys: []string{".codex"},
	}
}

func qwen() Runtime {
	return Runtime{
		Name: "qwen", Package: "@qwen-code/qwen-code", Version: "0.24.4",
		Presets: []Preset{{Server: secrets.OpenAI, Key: openaiKey, Model: openaiModel, Env: map[string]string{
			"OPENAI_BASE_URL": "{url}", "OPENAI_MODEL": "{model}",
		}}},
		Install: withNode,
		Args:    []string{node, "{root}/node_modules/@qwen-code/qwen-code/cli-entry.js", "--acp"},
		// A folder that is not trusted has no settings: the repository's .qwen could have hooks and servers, which are
		// commands. In such a folder it asks for each change, which is allowed.
		Files: map[string]string{".qwen/settings.json": `{"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},` +
			`"ui":{"enableFollowupSuggestions":false},"memory":{"enableManagedAutoMemory":false,"enableManagedAutoDream":false},` +
			`"security":{"auth":{"selectedType":"openai"},"folderTrust":{"enabled":true}}}`},
		Mode: "default",
	}
}

func copilot() Runtime {
	return Runtime{
		Name: "copilot", Package: "@github/copilot", Version: "1.0.102",
		Presets: []Preset{{Server: secrets.OpenAI, Key: openaiKey, Model: openaiModel, Env: map[string]string{
			"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_WIRE_API": "responses", "COPILOT_PROVIDER_BASE_URL": "{url}", "COPILOT_PROVIDER_API_KEY": "{key}",
			"COPILOT_MODEL": "{model}",
		}}},
		Install: `mkdir -p bin && for c in node_modules/@github/copilot-linux*/copilot; do chmod +x "$c" && ln -sf "../$c" bin/copilot; done && test -x bin/copilot`,
		Args:    []string{"{root}/bin/copilot", "--acp", "--allow-all-tools", "--allow-all-paths", "--disable-builtin-mcps", "--no-custom-instructions", "--no-auto-update", "--no-remote"},
		Env:     map[string]string{"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"},
		// Hooks are commands. It runs the repository's whatever its settings say.
		Obeys: []string{".github/hooks", ".github/copilot"},
	}
}

// keepSessions renames the files of earlier conversations before gemini starts. When it loads a conversation, it first
// writes an empty one to a file whose name has the current minute: to the file of a conversation that began in the same one.
const keepSessions = `for f in "$HOME"/.gemini/tmp/*/chats/session-2*.jsonl; do
  to=${f%/*}/session-kept-${f##*/session-}; [ ! -e "$f" ] || [ -e "$to" ] || mv "$f" "$to"
done
exec "$@"`

func gemini() Runtime {
	return Runtime{
		Name: "gemini", Package: "@google/gemini-cli", Version: "0.61.0",
		Presets: []Preset{{Server: secrets.Gemini, Key: geminiKey, Model: geminiModel, Env: map[string]string{
			"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_MODEL": "{model}",
		}}},
		Install: withNode,
		Args:    []string{"sh", "-c", keepSessions, "sh", node, "{root}/node_modules/@google/gemini-cli/bundle/gemini.js", "--acp"},
		// A workspace that is not trusted has no settings, instructions, hooks, skills and servers. In one it asks for each
		// change, which is allowed.
		Env: map[string]string{
			"GEMINI_CLI_TRUST_WORKSPACE": "false", "GEMINI_SANDBOX": "false", "GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_NO_RELAUNCH": "true",
		},
		Files: map[string]string{".gemini/settings.json": `{"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false,"plan":{"enabled":false},"sessionRetention":{"enabled":false}},` +
			`"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"advanced":{"ignoreLocalEnv":true},` +
			`"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":true}}}`},
		Mode: "default",
	}
}
