package image

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
)

// chain is a toolchain outside /usr that is shown at /opt/<name>.
type chain struct{ name, dir string }

// The words of a choice of toolchains that name none themselves.
const (
	chooseAuto = "auto"
	chooseNone = "none"
)

// kind is a toolchain that version managers keep outside /usr.
type kind struct {
	name string
	// programs prove it, below its directory. Of /usr it is complete with all of them.
	programs []string
	// places are where it is kept: patterns below the home directory, or below / when they begin with it. Only a directory
	// that such a pattern names is ever shown.
	places []string
}

func kinds() []kind {
	return []kind{
		{"go", []string{"bin/go"}, []string{
			"sdk/go*", ".local/share/mise/installs/go/*", ".asdf/installs/golang/*/go", ".goenv/versions/*", "/opt/go", "/opt/go-*"}},
		{"node", []string{"bin/node"}, []string{
			".nvm/versions/node/*", ".local/share/fnm/node-versions/*/installation", ".fnm/node-versions/*/installation",
			".local/share/mise/installs/node/*", ".asdf/installs/nodejs/*", ".volta/tools/image/node/*", "/opt/node", "/opt/node-*"}},
		// A system's own interpreter comes first: its modules are those that its
		// packages brought, and no second one of some hundred megabytes is masked.
		{"python", []string{"bin/python3"}, []string{
			".pyenv/versions/*", ".local/share/mise/installs/python/*", ".asdf/installs/python/*", ".local/share/uv/python/cpython-*", "/opt/python", "/opt/python-*"}},
		// Distributions have a package for each of the two.
		{"rust", []string{"bin/rustc", "bin/cargo"}, []string{
			".rustup/toolchains/*", ".local/share/mise/installs/rust/*", ".asdf/installs/rust/*", "/opt/rust", "/opt/rust-*"}},
		{"java", []string{"bin/java"}, []string{
			".sdkman/candidates/java/*", ".local/share/mise/installs/java/*", ".asdf/installs/java/*", "/opt/java", "/opt/jdk-*"}},
		{"maven", []string{"bin/mvn"}, []string{
			".sdkman/candidates/maven/*", ".local/share/mise/installs/maven/*/apache-maven-*", ".asdf/installs/maven/*", "/opt/maven", "/opt/apache-maven-*"}},
		{"gradle", []string{"bin/gradle"}, []string{
			".sdkman/candidates/gradle/*", ".local/share/mise/installs/gradle/*", ".asdf/installs/gradle/*", "/opt/gradle", "/opt/gradle-*"}},
		{"ruby", []string{"bin/ruby"}, []string{
			".rbenv/versions/*", ".local/share/mise/installs/ruby/*", ".asdf/installs/ruby/*", "/opt/ruby", "/opt/ruby-*"}},
	}
}

// chosen is what the operator takes of the toolchains.
type chosen struct {
	auto     bool
	versions map[string]string // by kind; empty is the default one
}

// choice reads Config.Toolchains.
func choice(words []string) (chosen, error) {
	c := chosen{versions: map[string]string{}}
	if len(words) == 0 {
		c.auto = true
	}
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	for _, word := range words {
		name, version, _ := strings.Cut(word, "@")
		switch {
		case word == chooseAuto:
			c.auto = true
		case word == chooseNone && len(words) == 1:
		case slices.Contains(names, name):
			c.versions[name] = version
		default:
			return c, api.Errorf(api.KindInvalid, "toolchain %q is not known", word).WithHint("daemon.toolchains is auto, none, or a list of %s; NAME@VERSION takes a version, such as rust@nightly", strings.Join(names, ", "))
		}
	}
	return c, nil
}

// CheckToolchains returns an error for a list that [Config] may not have.
func CheckToolchains(words []string) error {
	_, err := choice(words)
	return err
}

// findChains looks for the toolchains that the template shows.
func findChains(cfg Config) (out []chain) {
	c, err := choice(cfg.Toolchains)
	if err != nil {
		return nil // Digest says so
	}
	for _, k := range kinds() {
		version, named := c.versions[k.name]
		if !named && (!c.auto || k.inUsr(cfg)) {
			continue
		}
		if dir := k.choose(cfg, k.find(cfg), version); dir != "" {
			out = append(out, chain{k.name, dir})
		}
	}
	return out
}

// inUsr reports whether /usr has all programs of a kind.
func (k kind) inUsr(cfg Config) bool {
	return !slices.ContainsFunc(k.programs, func(program string) bool {
		return !slices.ContainsFunc([]string{"usr", "usr/local", "usr/local/go"}, func(prefix string) bool {
			return executable(filepath.Join(cfg.root, prefix, program))
		})
	})
}

// find returns the directories with a toolchain of this kind, by version.
func (k kind) find(cfg Config) (out []string) {
	for _, p := range k.places {
		base := cfg.Home
		if strings.HasPrefix(p, "/") {
			base = cfg.root
		}
		top, err := filepath.EvalSymlinks(base)
		if base == "" || err != nil {
			continue
		}
		// It fails if the home directory's name holds a pattern.
		matches, _ := filepath.Glob(filepath.Join(base, p))
		for _, dir := range matches {
			// A link such as "latest" stands for a directory that is found itself.
			fi, err := os.Lstat(dir)
			if err != nil || !fi.IsDir() || slices.ContainsFunc(k.programs, func(program string) bool { return !executable(filepath.Join(dir, program)) }) {
				continue
			}
			// Neither may a directory above it be one: it could lead to what is no toolchain.
			rel, err := filepath.Rel(base, dir)
			if real, rerr := filepath.EvalSymlinks(dir); err == nil && rerr == nil && real == filepath.Join(top, rel) {
				out = append(out, dir)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return compareVersions(versionOf(a), versionOf(b)) })
	return out
}

// choose takes the version that is asked for, else the one that is on the user's PATH, else the one that its manager runs by
// default, else the newest.
func (k kind) choose(cfg Config, found []string, version string) string {
	if version != "" {
		found = slices.DeleteFunc(found, func(dir string) bool { return !isVersion(versionOf(dir), version) })
	}
	if len(found) == 0 {
		return ""
	}
	onPath := filepath.SplitList(cfg.Path)
	for _, dir := range found {
		if slices.Contains(onPath, filepath.Join(dir, filepath.Dir(k.programs[0]))) {
			return dir
		}
	}
	for _, name := range k.defaults(cfg) {
		for _, dir := range slices.Backward(found) {
			if isVersion(versionOf(dir), name) {
				return dir
			}
		}
	}
	return found[len(found)-1]
}

// versionOf returns the part of a toolchain's directory that names it.
func versionOf(dir string) string {
	name, above := filepath.Base(dir), filepath.Base(filepath.Dir(dir))
	if (name == "installation" || name == "go") && above != "opt" {
		return above
	}
	return name
}

// isVersion reports whether a toolchain's name is a version, or begins with it: "nightly-x86_64-unknown-linux-gnu" is nightly, and
// v20.11.1 is 20.
func isVersion(name, version string) bool {
	for _, name := range []string{name, strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-")} {
		if rest, ok := strings.CutPrefix(name, strings.TrimPrefix(version, "v")); ok && (rest == "" || strings.ContainsRune(".-+_", rune(rest[0]))) {
			return true
		}
	}
	return false
}

// compareVersions compares names with the numbers in them as numbers: v9 is before v20.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		digits := func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }
		x, y := digits(a), digits(b)
		if x != "" && y != "" {
			tx, ty := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Or(cmp.Compare(len(tx), len(ty)), cmp.Compare(tx, ty)); c != 0 {
				return c
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// defaults are the names of the versions that a kind's manager runs by default.
func (k kind) defaults(cfg Config) []string {
	if cfg.Home == "" {
		return nil
	}
	small := func(p string) string {
		b, err := os.ReadFile(filepath.Join(cfg.Home, p))
		if err != nil || len(b) > 64<<10 {
			return ""
		}
		return string(b)
	}
	switch k.name {
	case "python":
		return strings.Fields(small(".pyenv/version"))
	case "node":
		return strings.Fields(small(".nvm/alias/default"))
	case "ruby":
		return strings.Fields(small(".rbenv/version"))
	case "rust":
		for line := range strings.Lines(small(".rustup/settings.toml")) {
			if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "default_toolchain" {
				return []string{strings.Trim(strings.TrimSpace(value), `"`)}
			}
		}
	case "java", "maven", "gradle": // sdkman's is a link
		if name, err := os.Readlink(filepath.Join(cfg.Home, ".sdkman/candidates", k.name, "current")); err == nil {
			return []string{filepath.Base(name)}
		}
	}
	return nil
}

// Toolchains lists the toolchains outside /usr, with whether the template shows them.
func (h *Host) Toolchains() (out []api.Toolchain) {
	shown := findChains(h.cfg)
	for _, k := range kinds() {
		for _, dir := range k.find(h.cfg) {
			name := versionOf(dir)
			out = append(out, api.Toolchain{Name: k.name, Version: name, Path: dir, Shown: slices.Contains(shown, chain{k.name, dir}), Setting: k.name + "@" + name})
		}
	}
	return out
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o005 == 0o005
}

// reportedTools are what people ask for.
var reportedTools = []string{"bash", "python3", "pip3", "node", "npm", "go", "gcc", "g++", "make", "git", "cargo", "rustc", "java", "javac", "ruby", "perl", "php", "curl", "jq", "tsc",
	"cmake", "ninja", "mvn", "gradle", "bundle", "composer", "pnpm", "yarn", "uv", "poetry"}

// tools finds where the template has each program.
func (b *builder) tools() []api.Tool {
	var out []api.Tool
	for _, name := range reportedTools {
		p := b.find(name)
		out = append(out, api.Tool{Name: name, Path: p, Present: p != ""})
	}
	return out
}

// visible reports whether a program of the sandbox's PATH can be run inside: it,
// and what it leads to, lie in a tree that is shown.
func (b *builder) visible(inside string) bool {
	p := b.outside(inside)
	if p == "" || !executable(p) {
		return false
	}
	final, err := filepath.EvalSymlinks(p)
	if err != nil {
		return false
	}
	for _, m := range b.mounts {
		source := m.Lowers[len(m.Lowers)-1]
		rel, err := filepath.Rel(source, final)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if len(m.Lowers) == 1 {
			return true
		}
		_, err = os.Lstat(filepath.Join(m.Lowers[0], rel))
		return err != nil // no whiteout
	}
	return false
}

// outside turns a path inside into one of this machine, or "".
func (b *builder) outside(inside string) string {
	for _, c := range b.chains {
		if rest, ok := strings.CutPrefix(inside, "/opt/"+c.name+"/"); ok {
			return filepath.Join(c.dir, rest)
		}
	}
	for _, top := range []string{"/usr/", "/bin/", "/sbin/"} {
		if strings.HasPrefix(inside, top) {
			return b.host(inside)
		}
	}
	return ""
}
