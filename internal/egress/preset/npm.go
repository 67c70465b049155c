package preset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// npm allows the registries of npm, pnpm and Yarn. Packages are downloaded from the host of the
// registry. What the user's .npmrc sets has priority over the global files, and a variable over
// both, as in npm.
func (c *collector) npm() {
	if c.methods != nil {
		// npm sends the names and versions of what it installs to be audited, with POST.
		c.env["npm_config_audit"] = "false"
	}
	registry, scopes := "", map[string]string{}
	if v := c.getenv("npm_config_registry", "NPM_CONFIG_REGISTRY"); v != "" {
		registry = v
	}
	for _, path := range c.npmFiles() {
		for key, value := range parseNPMRC(c.file(path), c.config.Getenv) {
			scope, isScope := strings.CutSuffix(key, ":registry")
			switch {
			case key == "registry" && registry == "":
				registry = value
			case isScope && scopes[scope] == "":
				scopes[scope] = value
			}
		}
	}
	m, ok := mirror{}, true
	if registry != "" {
		m, ok = c.read("npm's registry", registry)
	}
	switch {
	case !ok:
	case registry == "" || m.is(c.defaults.NPM.Registry):
		c.standard("npm", c.defaults.NPM.Rules)
		c.yarn(c.defaults.NPM.Registry)
	default:
		c.mirror(m)
		c.env["npm_config_registry"] = m.url
		c.yarn(m.url)
	}
	for _, scope := range sortedKeys(scopes) {
		what := fmt.Sprintf("npm's registry of the scope %.40q", scope)
		if m, ok := c.read(what, scopes[scope]); ok {
			c.mirror(m)
			if !m.is(c.defaults.NPM.Registry) {
				c.warn(fmt.Sprintf("%s is %s: sandboxes may use it, but no variable can set it. Put it into the project's .npmrc.", what, m.url))
			}
		}
	}
}

// yarn makes Yarn 1 use npm's registry: it has a default of its own, and does not read npm's
// variable. Later versions ignore this one.
func (c *collector) yarn(registry string) {
	if registry != "" {
		c.env["YARN_REGISTRY"] = registry
	}
}

// npmFiles returns the paths of npm's files, those with priority first.
func (c *collector) npmFiles() []string {
	user := c.getenv("npm_config_userconfig", "NPM_CONFIG_USERCONFIG")
	if user == "" {
		user = c.home(".npmrc")
	}
	if global := c.getenv("npm_config_globalconfig", "NPM_CONFIG_GLOBALCONFIG"); global != "" {
		return []string{user, global}
	}
	return []string{user, "/usr/local/etc/npmrc", "/usr/etc/npmrc", "/etc/npmrc"}
}

// parseNPMRC returns the registries of an npmrc file: the keys "registry" and
// "@scope:registry". No other value is returned: they are secrets.
func parseNPMRC(lines []string, getenv func(string) string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			break // what follows is not of npm itself
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key != "registry" && !(strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry")) {
			continue
		}
		if value = expand(unquote(strings.TrimSpace(value)), getenv); value != "" {
			out[key] = value // the last one counts
		}
	}
	return out
}

// unquote removes quotes.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] {
		return s
	}
	switch s[0] {
	case '\'':
		return s[1 : len(s)-1]
	case '"':
		var text string
		if json.Unmarshal([]byte(s), &text) == nil {
			return text
		}
	}
	return s
}

// expand replaces ${NAME} and ${NAME?} by variables. One that is not set remains as it is, and
// then is no URL.
func expand(s string, getenv func(string) string) string {
	var b strings.Builder
	for b.Len() <= maxURL {
		before, after, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, rest, ok := strings.Cut(after, "}")
		if !ok {
			b.WriteString("${" + after)
			return b.String()
		}
		optional := strings.HasSuffix(name, "?")
		value := getenv(strings.TrimSuffix(name, "?"))
		if value == "" && !optional {
			value = "${" + name + "}"
		}
		b.WriteString(value)
		s = rest
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
