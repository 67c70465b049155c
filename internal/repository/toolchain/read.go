package toolchain

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/repository/dependency"
)

// Bounds of Read.
const (
	maxFile  = 64 << 10 // bytes of a file
	maxNeeds = 64
	maxText  = 200 // bytes of a command
)

// Need is a toolchain, or a package manager, that a file names.
type Need struct {
	Name string `json:"name"` // such as rust, node, python or pnpm
	// Version is as the file has it, or with >= if it is the oldest that will do.
	Version string `json:"version"`
	File    string `json:"file"`
}

// Needs is what the files of a repository name.
type Needs struct {
	Toolchains []Need `json:"toolchains"`
	// Image is a container image that has the toolchains; ImageFile is what names it.
	Image     string `json:"image,omitempty"`
	ImageFile string `json:"imageFile,omitempty"`
	// Setup is the command with which a devcontainer is set up, for people.
	Setup string `json:"setup,omitempty"`
	// Notes say what could not be read, in sentences.
	Notes []string `json:"notes,omitempty"`
}

var (
	name    = lazyregexp.New(`^[a-z][a-z0-9-]{0,39}$`)
	version = lazyregexp.New(`^[0-9A-Za-z.^~><=|!*, _+/-]{1,64}$`)
	image   = lazyregexp.New(`^[a-z0-9][a-z0-9._/:@-]{0,199}$`)
	pom     = lazyregexp.New(`<(?:maven\.compiler\.(?:release|source)|java\.version)>\s*([0-9.]{1,8})\s*<`)
	from    = lazyregexp.New(`(?im)^[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?(\S+)`)
)

// names are those that version managers and devcontainers have for a toolchain with another name here.
func names() map[string]string {
	return map[string]string{"nodejs": "node", "golang": "go", "rust-toolchain": "rust"}
}

type reader struct {
	dependency.Tree
	out Needs
}

// Read reads the files of a commit.
func Read(t dependency.Tree) Needs {
	r := &reader{Tree: t, out: Needs{Toolchains: []Need{}}}
	r.lists()
	for _, one := range []struct{ file, name string }{
		{".nvmrc", "node"}, {".node-version", "node"}, {".python-version", "python"}, {".ruby-version", "ruby"}, {".java-version", "java"}, {".go-version", "go"},
	} {
		if text, _, _ := strings.Cut(strings.TrimSpace(r.text(one.file)), "\n"); text != "" {
			r.add(one.name, strings.TrimPrefix(strings.TrimSpace(text), one.name+"-"), one.file)
		}
	}
	r.rust()
	r.golang()
	r.node()
	r.python()
	if m := pom.FindStringSubmatch(r.text("pom.xml")); m != nil {
		r.add("java", ">="+strings.TrimPrefix(m[1], "1."), "pom.xml")
	}
	r.devcontainer()
	if m := from.FindStringSubmatch(r.text("Dockerfile")); m != nil {
		r.image(m[1], "Dockerfile")
	}
	return r.out
}

// text returns a file, "" if it is not there or too long.
func (r *reader) text(p string) string {
	if _, ok := slices.BinarySearch(r.Paths, p); !ok {
		return ""
	}
	b := r.Tree.Read(p)
	if len(b) > maxFile {
		r.note(p + " is too long, so it is not read")
		return ""
	}
	return string(b)
}

func (r *reader) note(text string) { r.out.Notes = append(r.out.Notes, text) }

func (r *reader) add(what, v, file string) {
	if short, ok := names()[what]; ok {
		what = short
	}
	n := Need{what, strings.TrimSpace(v), file}
	if name.MatchString(n.Name) && version.MatchString(n.Version) && len(r.out.Toolchains) < maxNeeds && !slices.Contains(r.out.Toolchains, n) {
		r.out.Toolchains = append(r.out.Toolchains, n)
	}
}

func (r *reader) image(text, file string) {
	// A name with a variable, and the empty image, are of no use to anyone.
	if r.out.Image == "" && image.MatchString(text) && text != "scratch" {
		r.out.Image, r.out.ImageFile = text, file
	}
}

func (r *reader) toml(file string, into any) {
	if text := r.text(file); text != "" && toml.Unmarshal([]byte(text), into) != nil {
		r.note(file + " cannot be read")
	}
}

// lists reads the files that name several toolchains.
func (r *reader) lists() {
	for line := range strings.Lines(r.text(".tool-versions")) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 {
			r.add(f[0], f[1], ".tool-versions")
		}
	}
	for line := range strings.Lines(r.text(".sdkmanrc")) {
		if what, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(what, "#") {
			r.add(what, v, ".sdkmanrc")
		}
	}
	for _, file := range []string{"mise.toml", ".mise.toml"} {
		var mise struct {
			Tools map[string]any `toml:"tools"`
		}
		r.toml(file, &mise)
		for _, what := range slices.Sorted(maps.Keys(mise.Tools)) {
			if v, ok := mise.Tools[what].(string); ok {
				r.add(what, v, file)
			}
		}
	}
}

func (r *reader) rust() {
	for _, file := range []string{"rust-toolchain.toml", "rust-toolchain"} {
		text := strings.TrimSpace(r.text(file))
		if !strings.Contains(text, "[") {
			r.add("rust", text, file) // the old form has the name alone
			continue
		}
		var t struct {
			Toolchain struct {
				Channel string `toml:"channel"`
			} `toml:"toolchain"`
		}
		r.toml(file, &t)
		r.add("rust", t.Toolchain.Channel, file)
	}
	var cargo struct {
		Package struct {
			Rust any `toml:"rust-version"` // or a table: that of the workspace
		} `toml:"package"`
		Workspace struct {
			Package struct {
				Rust string `toml:"rust-version"`
			} `toml:"package"`
		} `toml:"workspace"`
	}
	r.toml("Cargo.toml", &cargo)
	oldest, _ := cargo.Package.Rust.(string)
	if oldest == "" {
		oldest = cargo.Workspace.Package.Rust
	}
	if oldest != "" {
		r.add("rust", ">="+oldest, "Cargo.toml")
	}
}

func (r *reader) golang() {
	for line := range strings.Lines(r.text("go.mod")) {
		line, _, _ = strings.Cut(line, "//")
		if f := strings.Fields(line); len(f) == 2 && f[0] == "go" {
			r.add("go", ">="+f[1], "go.mod")
		}
	}
}

func (r *reader) node() {
	text := r.text("package.json")
	if text == "" {
		return
	}
	var pkg struct {
		Engines map[string]any    `json:"engines"`
		Manager string            `json:"packageManager"`
		Volta   map[string]string `json:"volta"`
	}
	if json.Unmarshal([]byte(text), &pkg) != nil {
		r.note("package.json cannot be read")
		return
	}
	for _, what := range []string{"node", "npm", "pnpm", "yarn", "bun"} {
		if v, ok := pkg.Engines[what].(string); ok {
			r.add(what, v, "package.json")
		}
		if v := pkg.Volta[what]; v != "" {
			r.add(what, v, "package.json")
		}
	}
	what, v, _ := strings.Cut(pkg.Manager, "@")
	v, _, _ = strings.Cut(v, "+")
	r.add(what, v, "package.json")
}

func (r *reader) python() {
	var p struct {
		Project struct {
			Python string `toml:"requires-python"`
		} `toml:"project"`
		Tool struct {
			Poetry struct {
				Dependencies map[string]any `toml:"dependencies"`
			} `toml:"poetry"`
		} `toml:"tool"`
	}
	r.toml("pyproject.toml", &p)
	r.add("python", p.Project.Python, "pyproject.toml")
	if v, ok := p.Tool.Poetry.Dependencies["python"].(string); ok {
		r.add("python", v, "pyproject.toml")
	}
}

func (r *reader) devcontainer() {
	for _, file := range []string{".devcontainer/devcontainer.json", ".devcontainer.json"} {
		text := r.text(file)
		if text == "" {
			continue
		}
		var c struct {
			Image string `json:"image"`
			Build struct {
				File string `json:"dockerfile"`
			} `json:"build"`
			DockerFile string         `json:"dockerFile"`
			Features   map[string]any `json:"features"`
			Setup      any            `json:"postCreateCommand"`
		}
		if json.Unmarshal(plain(text), &c) != nil {
			r.note(file + " cannot be read")
			continue
		}
		r.image(c.Image, file)
		if c.Build.File == "" {
			c.Build.File = c.DockerFile
		}
		if p := path.Join(path.Dir(file), c.Build.File); c.Build.File != "" && !strings.HasPrefix(p, "../") {
			if m := from.FindStringSubmatch(r.text(p)); m != nil {
				r.image(m[1], p)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(c.Features)) {
			what, _, _ := strings.Cut(path.Base(key), ":")
			v := "latest"
			if options, ok := c.Features[key].(map[string]any); ok {
				if text, ok := options["version"].(string); ok {
					v = text
				}
			}
			if short, ok := names()[what]; ok {
				what = short
			}
			if programs()[what] != "" {
				r.add(what, v, file)
			}
		}
		var words []string
		switch setup := c.Setup.(type) {
		case string:
			words = []string{setup}
		case []any:
			for _, w := range setup {
				if text, ok := w.(string); ok {
					words = append(words, text)
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(setup)) {
				if text, ok := setup[key].(string); ok {
					words = append(words, text+";")
				}
			}
		}
		all := strings.Join(words, " ")
		r.out.Setup = strings.ToValidUTF8(all[:min(len(all), maxText)], "")
		return
	}
}

// plain takes the comments and the commas before a closing bracket out of JSON.
func plain(text string) []byte {
	out := make([]byte, 0, len(text))
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted:
			if c == '\\' && i+1 < len(text) {
				out = append(out, c)
				i++
				c = text[i]
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case strings.HasPrefix(text[i:], "//"):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
			continue
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return out
			}
			i += 2 + end + 1
			continue
		case c == '}' || c == ']':
			end := len(out)
			for end > 0 && strings.IndexByte(" \t\r\n", out[end-1]) >= 0 {
				end--
			}
			if end > 0 && out[end-1] == ',' {
				out = out[:end-1]
			}
		}
		out = append(out, c)
	}
	return out
}
