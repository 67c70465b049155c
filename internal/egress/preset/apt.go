package preset

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// apt allows the hosts of apt's sources. There is no variable for them: a sandbox from the
// host's own template has the same files.
func (c *collector) apt() {
	uris := parseSourcesList(c.file("/etc/apt/sources.list"))
	for _, p := range c.directory("/etc/apt/sources.list.d") {
		switch path.Ext(p) {
		case ".list":
			uris = append(uris, parseSourcesList(c.file(p))...)
		case ".sources":
			uris = append(uris, parseSources(c.file(p))...)
		}
	}
	if len(uris) == 0 {
		c.standard("apt", c.defaults.Apt.Rules)
		return
	}
	slices.Sort(uris)
	for _, uri := range slices.Compact(uris) {
		switch scheme, _, _ := strings.Cut(uri, ":"); scheme {
		case "cdrom", "file", "copy":
			continue // no host
		case "mirror", "mirror+http", "mirror+https":
			c.warn("a source of apt is a list of mirrors: sandboxes may read the list, and the mirrors need rules.")
			uri = strings.TrimPrefix(uri, "mirror+")
			if scheme == "mirror" {
				uri = "http" + strings.TrimPrefix(uri, "mirror")
			}
		}
		if c.mirrors > maxMirrors {
			return
		}
		if m, ok := c.read("a source of apt", uri); ok {
			c.mirror(m)
		}
	}
}

// parseSourcesList returns the URIs of a file of one-line sources:
//
//	deb [arch=amd64 signed-by=/key.gpg] http://mirror.example.org/debian trixie main
func parseSourcesList(lines []string) []string {
	var out []string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		if kind != "deb" && kind != "deb-src" {
			continue
		}
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(options, "[") {
			rest = after
		}
		if f := strings.Fields(rest); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}

// parseSources returns the URIs of a file of deb822 paragraphs that are not disabled.
func parseSources(lines []string) []string {
	var out, uris []string
	enabled, field := true, ""
	end := func() {
		if enabled {
			out = append(out, uris...)
		}
		uris, enabled, field = nil, true, ""
	}
	for _, line := range lines {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			continue
		case text == "":
			end()
			continue
		case line[0] != ' ' && line[0] != '\t':
			name, value, ok := strings.Cut(text, ":")
			if !ok {
				field = ""
				continue
			}
			field, text = strings.ToLower(strings.TrimSpace(name)), value
		}
		switch field {
		case "uris":
			uris = append(uris, strings.Fields(text)...)
		case "enabled":
			switch strings.ToLower(strings.TrimSpace(text)) {
			case "no", "false", "without", "off", "disable":
				enabled = false
			}
		}
	}
	end()
	return out
}

// git allows the configured forges.
func (c *collector) git() {
	c.hosts("forge", "the configured forge", c.config.Git)
}

// models allows the configured model services.
func (c *collector) models() {
	c.hosts("model service", "the configured model service", c.config.Models)
}

// hosts allows hosts of the daemon's own configuration.
func (c *collector) hosts(kind, what string, hosts []string) {
	if len(hosts) == 0 {
		c.warn(fmt.Sprintf("no %s is configured, so this preset allows nothing.", kind))
		return
	}
	for _, h := range hosts {
		if !strings.Contains(h, "://") {
			h = "https://" + h
		}
		if m, ok := c.read(what, h); ok {
			c.mirror(m)
		}
	}
}
