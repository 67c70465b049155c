package preset

import (
	"slices"
	"strings"
)

// pip allows the package indexes of pip. The default index has its files on another host; a
// mirror is taken to serve them itself. As in pip, a variable has priority over the section
// [install], which has priority over [global], in whatever file they are.
func (c *collector) pip() {
	settings := map[string]string{}
	for _, path := range c.pipFiles() {
		for key, value := range parsePipConf(c.file(path)) {
			settings[key] = value
		}
	}
	get := func(variable, key string) []string {
		for _, v := range []string{c.getenv(variable), settings["install."+key], settings["global."+key]} {
			if f := strings.Fields(v); len(f) > 0 {
				return f
			}
		}
		return nil
	}
	trusted := get("PIP_TRUSTED_HOST", "trusted-host")
	var insecure []string
	use := func(what, raw string) (mirror, bool) {
		m, ok := c.read(what, raw)
		switch {
		case !ok:
			return m, false
		case m.is(c.defaults.Pip.Index):
			c.standard("pip", c.defaults.Pip.Rules)
			return m, true
		}
		c.mirror(m)
		// pip refuses http unless the host is trusted.
		isTrusted := slices.Contains(trusted, m.authority) || slices.Contains(trusted, m.target.Host)
		if m.scheme == "http" && isTrusted && !slices.Contains(insecure, m.authority) {
			insecure = append(insecure, m.authority)
		}
		return m, true
	}
	if index := get("PIP_INDEX_URL", "index-url"); index == nil {
		c.standard("pip", c.defaults.Pip.Rules)
	} else if m, ok := use("pip's index", index[0]); ok && !m.is(c.defaults.Pip.Index) {
		c.env["PIP_INDEX_URL"] = m.url
	}
	var extra []string
	for _, raw := range get("PIP_EXTRA_INDEX_URL", "extra-index-url") {
		if m, ok := use("an extra index of pip", raw); ok {
			extra = append(extra, m.url)
		}
		if c.mirrors > maxMirrors {
			break
		}
	}
	if extra != nil {
		c.env["PIP_EXTRA_INDEX_URL"] = strings.Join(extra, " ")
	}
	if insecure != nil {
		c.env["PIP_TRUSTED_HOST"] = strings.Join(insecure, " ")
	}
}

// pipFiles returns the paths of pip's files, those with priority last.
func (c *collector) pipFiles() []string {
	last := c.getenv("PIP_CONFIG_FILE")
	if last == "/dev/null" {
		return nil // pip reads no file then
	}
	return []string{"/etc/xdg/pip/pip.conf", "/etc/pip.conf", c.home(".pip/pip.conf"), c.userConfig("pip/pip.conf"), last}
}

// parsePipConf returns the settings of a pip.conf file that name hosts, by section and key. No
// other value is returned.
func parsePipConf(lines []string) map[string]string {
	out := map[string]string{}
	section, key := "", ""
	for _, line := range lines {
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			// A value in several lines.
			if key != "" && len(out[key]) < maxFile {
				out[key] += " " + text
			}
			continue
		}
		key = ""
		if text[0] == '[' {
			section = strings.ToLower(strings.Trim(text, "[]"))
			continue
		}
		at := strings.IndexAny(text, "=:")
		if at < 0 || section != "global" && section != "install" {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text[:at])), "_", "-")
		switch name = strings.TrimLeft(name, "-"); name {
		case "index-url", "extra-index-url", "trusted-host":
			key = section + "." + name
			out[key] = strings.TrimSpace(text[at+1:])
		}
	}
	return out
}
