package runtime

import "hortus.dev/api/secrets"

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
