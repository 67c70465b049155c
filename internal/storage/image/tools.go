package image

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"hortus.dev/api"
)

// chain is a toolchain outside /usr that is shown at /opt/<name>.
type chain struct{ name, dir string }

// kinds says of each toolchain which program proves it, where /usr would have
// it, and where version managers keep it: patterns below the home directory, or
// below / when they begin with it. Only a directory that such a pattern names is
// ever shown.
var kinds = []struct {
	name, program string
	inUsr         []string
	places        []string
}{
	{"go", "bin/go", []string{"usr/local/go/bin/go", "usr/bin/go", "usr/local/bin/go"}, []string{
		"sdk/go*", ".local/share/mise/installs/go/*", ".asdf/installs/golang/*/go", ".goenv/versions/*", "/opt/go", "/opt/go-*"}},
	{"node", "bin/node", []string{"usr/bin/node", "usr/local/bin/node"}, []string{
		".nvm/versions/node/*", ".local/share/mise/installs/node/*", ".asdf/installs/nodejs/*", ".volta/tools/image/node/*", "/opt/node", "/opt/node-*"}},
	// A system's own interpreter comes first: its modules are those that its
	// packages brought, and no second one of some hundred megabytes is masked.
	{"python", "bin/python3", []string{"usr/bin/python3", "usr/local/bin/python3"}, []string{
		".local/share/mise/installs/python/*", ".asdf/installs/python/*", ".local/share/uv/python/cpython-*", "/opt/python", "/opt/python-*"}},
	{"rust", "bin/rustc", []string{"usr/bin/rustc", "usr/local/bin/rustc"}, []string{
		".asdf/installs/rust/*", "/opt/rust", "/opt/rust-*"}},
	{"java", "bin/java", []string{"usr/bin/java", "usr/local/bin/java"}, []string{
		".sdkman/candidates/java/*", ".local/share/mise/installs/java/*", ".asdf/installs/java/*", "/opt/java", "/opt/jdk-*"}},
}

// findChains looks for toolchains of which /usr has none.
func findChains(cfg Config) []chain {
	var out []chain
	for _, k := range kinds {
		if slices.ContainsFunc(k.inUsr, func(p string) bool { return executable(filepath.Join(cfg.root, p)) }) {
			continue
		}
		var found []string
		for _, p := range k.places {
			switch {
			case strings.HasPrefix(p, "/"):
				p = filepath.Join(cfg.root, p)
			case cfg.Home == "":
				continue
			default:
				p = filepath.Join(cfg.Home, p)
			}
			matches, err := filepath.Glob(p)
			if err != nil {
				continue // the home directory's name holds a pattern
			}
			found = append(found, matches...)
		}
		switch k.name {
		case "python":
			found = append(found, pyenv(cfg)...)
		case "rust":
			found = append(found, rustup(cfg)...)
		}
		if dir := choose(cfg, found, k.program); dir != "" {
			out = append(out, chain{k.name, dir})
		}
	}
	return out
}

// choose takes the candidate that is on the user's PATH, else the last by name.
func choose(cfg Config, found []string, program string) string {
	onPath := filepath.SplitList(cfg.Path)
	sort.Strings(found)
	best := ""
	for _, dir := range found {
		// A link such as "latest" stands for a directory that is found itself.
		fi, err := os.Lstat(dir)
		if err != nil || !fi.IsDir() || !executable(filepath.Join(dir, program)) {
			continue
		}
		if slices.Contains(onPath, filepath.Join(dir, filepath.Dir(program))) {
			return dir
		}
		best = dir
	}
	return best
}

// pyenv finds the version that pyenv would run by default.
func pyenv(cfg Config) []string {
	if cfg.Home == "" {
		return nil
	}
	root := filepath.Join(cfg.Home, ".pyenv")
	b, err := os.ReadFile(filepath.Join(root, "version"))
	if err != nil || len(b) > 4096 {
		return nil
	}
	for _, v := range strings.Fields(string(b)) {
		if v == filepath.Base(v) && v != "." && v != ".." && v != "system" {
			return []string{filepath.Join(root, "versions", v)}
		}
	}
	return nil
}

// rustup finds the toolchain that rustup would run by default. Its programs on
// the PATH are one program that looks for the toolchain at every start, by
// settings that a sandbox does not see.
func rustup(cfg Config) []string {
	if cfg.Home == "" {
		return nil
	}
	root := filepath.Join(cfg.Home, ".rustup")
	b, err := os.ReadFile(filepath.Join(root, "settings.toml"))
	if err != nil || len(b) > 64<<10 {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) != "default_toolchain" {
			continue
		}
		v := strings.Trim(strings.TrimSpace(value), `"`)
		if v != "" && v == filepath.Base(v) && v != "." && v != ".." {
			return []string{filepath.Join(root, "toolchains", v)}
		}
	}
	return nil
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o005 == 0o005
}

// reportedTools are what people ask for.
var reportedTools = []string{"bash", "python3", "pip3", "node", "npm", "go", "gcc", "g++", "make", "git", "cargo", "rustc", "java", "javac", "ruby", "perl", "php", "curl", "jq", "tsc"}

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
