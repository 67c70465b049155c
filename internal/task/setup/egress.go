package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// registries are the presets that a setup gets if nobody decided: those that the install commands of programs get.
func registries() []string { return []string{"npm", "pip", "go"} }

// all is the preset of all package registries.
const all = "registries"

// policy returns what the steps may connect to. A repository can ask for less than the task allows, never for more.
func policy(asked []string, allowed *api.EgressPolicy) (p api.EgressPolicy, denied []string) {
	have := registries()
	if allowed != nil {
		p, have = *allowed, allowed.Presets
		p.Presets = nil
	}
	for _, name := range asked {
		switch {
		case slices.Contains(have, name), slices.Contains(have, all) && (name == "apt" || slices.Contains(registries(), name)):
			p.Presets = append(p.Presets, name)
		default:
			denied = append(denied, name)
		}
	}
	return p, denied
}

// egress returns the policy of the steps, and says what is denied.
func (j *job) egress(ctx context.Context) api.EgressPolicy {
	p, denied := policy(j.plan.Presets, j.q.Egress)
	for _, name := range denied {
		note(ctx, j.q, fmt.Sprintf("may not connect to %s, which the repository asks for; to allow it: --setup-egress %s", name, name), nil)
	}
	return p
}

// quietly are variables of installers: they ask nothing, and connect to nothing but their registry.
func quietly(opens bool) map[string]string {
	env := map[string]string{
		"CI": "1", "NO_COLOR": "1", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive",
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_PROGRESS_BAR": "off",
		"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_progress": "false", "npm_config_logs_max": "0",
		"GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "POETRY_VIRTUALENVS_IN_PROJECT": "true", "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",
		"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "4000",
		"PIP_RETRIES": "2", "npm_config_fetch_retries": "2",
	}
	if !opens {
		// Nothing can be connected to, so they give up at once.
		env["PIP_RETRIES"], env["npm_config_fetch_retries"], env["GOPROXY"] = "0", "0", "off"
	}
	return env
}

// advise says how a step that failed could connect to what it needs.
func advise(p api.EgressPolicy, q repo.SetupRequest) string {
	if p.Opens() || q.Egress != nil {
		return ""
	}
	return "the setup may not connect to anything; to allow a registry: --setup-egress " + strings.Join(registries(), ",")
}
