package network

import (
	"net/url"

	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge"
)

// ForgeHosts returns the hosts of the preset "git".
func ForgeHosts(forges []config.Forge) []string {
	hosts := forge.PublicHosts()
	for _, f := range forges {
		if f.URL != "" {
			hosts = append(hosts, f.URL)
			continue
		}
		hosts = append(hosts, f.Host)
	}
	return hosts
}

// ModelHosts returns the hosts of the preset "models".
func ModelHosts(getenv func(string) string) (hosts []string) {
	for name, base := range map[string]string{"ANTHROPIC_BASE_URL": anthropic.DefaultBaseURL, "OPENAI_BASE_URL": openai.DefaultBaseURL} {
		for _, variable := range []string{name, "HORTUS_" + name} {
			if v := getenv(variable); v != "" {
				base = v
			}
		}
		hosts = append(hosts, base)
	}
	return hosts
}

// PublicHosts returns the hosts of the presets "git" and "models" that are not in a private network.
func PublicHosts() []string {
	hosts := forge.PublicHosts()
	for _, base := range []string{anthropic.DefaultBaseURL, openai.DefaultBaseURL} {
		if u, err := url.Parse(base); err == nil {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
