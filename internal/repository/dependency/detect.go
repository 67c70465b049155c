package dependency

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/internal/platform/lazyregexp"
)

// Bounds of Detect.
const (
	maxProjects = 24 // directories with lock files
	maxDepth    = 6  // names in the path of such a directory
	maxNotes    = 8
	maxMembers  = 200 // projects in a directory with workspaces or modules
)

// tool is a package manager: what its lock file is, and what installs it.
type tool struct {
	// lock is the name of the file that begins it.
	lock string
	// detect adds the project in a directory.
	detect func(*detector, string)
	// family is one manager for each directory: the first that is there installs.
	family string
}

func tools() []tool {
	return []tool{
		{"pnpm-lock.yaml", (*detector).pnpm, "node"},
		{"yarn.lock", (*detector).yarn, "node"},
		{"package-lock.json", (*detector).npm, "node"},
		{"npm-shrinkwrap.json", (*detector).npm, "node"},
		{"package.json", (*detector).unlockedNode, "node"},
		{"uv.lock", (*detector).uv, "python"},
		{"poetry.lock", (*detector).poetry, "python"},
		{"requirements.txt", (*detector).pip, "python"},
		{"pyproject.toml", (*detector).pip, "python"},
		{"setup.cfg", (*detector).pip, "python"},
		{"setup.py", (*detector).pip, "python"},
		{"requirements-dev.txt", (*detector).pip, "python"},
		{"test-requirements.txt", (*detector).pip, "python"},
		{"go.mod", (*detector).golang, "go"},
		{"Cargo.lock", (*detector).cargo, "cargo"},
		{"Gemfile.lock", (*detector).bundler, "ruby"},
		{"Gemfile", (*detector).unlockedBundler, "ruby"},
		{"composer.lock", (*detector).composer, "php"},
		{"pom.xml", (*detector).maven, "java"},
	}
}

// Timeouts of steps.
const (
	installTimeout = 15 * time.Minute
	buildTimeout   = 10 * time.Minute
)

type detector struct {
	Tree
	plan    Plan
	presets map[string]bool
	// taken are files of requirements that a project above their directory installs.
	taken map[string]bool
	// below are directories whose project includes what lies below them.
	below map[string][]string
}

// Detect returns what the lock files and manifests of a commit say. What a manifest without a lock file gives today is not
// what it gives tomorrow: a warning says so.
func Detect(t Tree) Plan {
	d := &detector{Tree: t, presets: map[string]bool{}, below: map[string][]string{}, taken: map[string]bool{}}
	d.plan.tree = t.Digest
	d.plan.Env, d.plan.inputs = map[string]string{}, map[string][sha256.Size]byte{}
	byName := map[string]int{}
	all := tools()
	for i, tool := range all {
		byName[tool.lock] = i
	}
	dirs := map[string][]int{}
	for _, p := range t.Paths {
		if i, ok := byName[path.Base(p)]; ok && searched(path.Dir(p)) {
			dirs[path.Dir(p)] = append(dirs[path.Dir(p)], i)
		}
	}
	order := make([]string, 0, len(dirs))
	for dir := range dirs {
		order = append(order, dir)
	}
	// The top first, then by name.
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), strings.Compare(a, b))
	})
	if len(order) > maxProjects {
		d.note("%d directories have lock files or manifests; only the first %d are prepared", len(order), maxProjects)
		order = order[:maxProjects]
	}
	for _, dir := range order {
		slices.Sort(dirs[dir])
		done := map[string]bool{}
		for _, i := range dirs[dir] {
			if f := all[i].family; !done[f] && !d.covered(f, dir) {
				done[f] = true
				all[i].detect(d, dir)
			}
		}
	}
	for name := range d.presets {
		d.plan.Presets = append(d.plan.Presets, name)
	}
	slices.Sort(d.plan.Presets)
	return d.plan
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return strings.Count(dir, "/") + 1
}

// searched reports whether a directory may be a project: what other tools made, and the data of tests, is not.
func searched(dir string) bool {
	if dir == "." {
		return true
	}
	if depth(dir) > maxDepth || len(dir) > 512 || !utf8.ValidString(dir) || strings.ContainsFunc(dir, unicode.IsControl) {
		return false
	}
	for name := range strings.SplitSeq(dir, "/") {
		switch name {
		case "node_modules", "vendor", "testdata", "third_party", "fixtures", "__fixtures__", "target", "dist":
			return false
		}
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return false
		}
	}
	return true
}

// covered reports whether a project above a directory installs it too.
func (d *detector) covered(family, dir string) bool {
	return slices.ContainsFunc(d.below[family], func(top string) bool {
		return dir != top && (top == "." || strings.HasPrefix(dir, top+"/"))
	})
}

func (d *detector) note(format string, args ...any) {
	if len(d.plan.Notes) < maxNotes {
		d.plan.Notes = append(d.plan.Notes, fmt.Sprintf(format, args...))
	}
}

func (d *detector) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(d.plan.Warnings) < maxNotes && !slices.Contains(d.plan.Warnings, text) {
		d.plan.Warnings = append(d.plan.Warnings, text)
	}
}

// unlocked warns that a program chooses versions.
func (d *detector) unlocked(p, program string) {
	d.warn("%s has no lock file: %s installs the newest versions that it allows; the result is kept until hortus repo prepare --fresh", p, program)
}

// aside reports whether a manifest without a lock file is of what stands beside a project: what it names is often large, and
// no test of the project needs it.
func (d *detector) aside(p string) bool {
	for name := range strings.SplitSeq(path.Dir(p), "/") {
		switch name {
		case "doc", "docs", "example", "examples", "website", "site", "benchmark", "benchmarks", "template", "templates", "test", "tests":
			d.note("%s has no lock file and is in a directory %s, so what it names is not installed: commit a lock file, or write %s", p, name, RecipePath)
			return true
		}
	}
	return false
}

// path adds a directory of programs below [Cache].
func (d *detector) path(dir string) {
	if !slices.Contains(d.plan.Path, dir) {
		d.plan.Path = append(d.plan.Path, dir)
	}
}

// input makes a file part of the key, if it is there.
func (d *detector) input(dir string, names ...string) {
	for _, name := range names {
		if p := path.Join(dir, name); d.has(p) {
			d.plan.inputs[p] = sha256.Sum256(d.Read(p))
		}
	}
}

// runs notes code of the repository that an installation runs.
func (d *detector) runs(format string, args ...any) {
	if what := fmt.Sprintf(format, args...); len(d.plan.Code) < maxNotes && !slices.Contains(d.plan.Code, what) {
		d.plan.Code = append(d.plan.Code, what)
	}
}

// add adds the steps of the project whose lock file is p.
func (d *detector) add(p, preset string, steps ...Step) {
	d.input(path.Dir(p), path.Base(p))
	d.found(path.Dir(p), p, preset, steps...)
}

// found adds the steps of the project in dir. Its manifest p is not part of the key as a whole.
func (d *detector) found(dir, p, preset string, steps ...Step) {
	d.plan.From = append(d.plan.From, p)
	if preset != "" {
		d.presets[preset] = true
	}
	for _, s := range steps {
		s.Dir = dir
		if dir != "." {
			s.Name += " in " + dir
		}
		d.plan.Steps = append(d.plan.Steps, s)
	}
}

// install is a step that downloads, with one retry.
func install(run string, results []string, needs ...string) Step {
	return Step{Name: run, Run: run, Timeout: installTimeout, Retries: 1, Results: results, Needs: needs}
}

// inTree is a version that is a package of the repository, and inTreeText is JSON with one. "~1.2" is a range, "~/a" a path.
var (
	inTree     = lazyregexp.New(`^(?:(?:file|link|portal|patch):|\.|/|~/|[A-Za-z]:)|^[^:]*\.(?:tgz|tar|tar\.gz)$`)
	inTreeText = lazyregexp.New(`"patchedDependencies"|"(?:[^"]*@)?(?:(?:file|link|portal|patch):|\.{1,2}/|/|~/)|"[^":]*\.(?:tgz|tar|tar\.gz)"`)
)

// manifest makes the part of a package.json that decides what is installed part of the key.
func (d *detector) manifest(dir string) {
	p := path.Join(dir, "package.json")
	if !d.has(p) {
		return
	}
	all, keep := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(d.Read(p), &all) != nil {
		d.input(dir, "package.json")
		return
	}
	for _, name := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "bundleDependencies", "overrides", "resolutions", "workspaces", "packageManager", "pnpm", "engines"} {
		if v, ok := all[name]; ok {
			keep[name] = v
		}
	}
	scripts := map[string]json.RawMessage{}
	if json.Unmarshal(all["scripts"], &scripts) == nil {
		for _, name := range []string{"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"} {
			if v, ok := scripts[name]; ok {
				keep["scripts."+name] = v
				d.runs("the script %s of %s", name, p)
			}
		}
	}
	for _, name := range []string{"dependencies", "devDependencies", "optionalDependencies"} {
		var versions map[string]string
		if json.Unmarshal(all[name], &versions) != nil && len(all[name]) > 0 {
			d.runs("%s of %s", name, p) // no map of texts: nobody knows what it names
		}
		for _, v := range versions {
			if inTree.MatchString(v) {
				d.runs("a package of the repository that %s names", p)
			}
		}
	}
	for _, name := range []string{"peerDependencies", "overrides", "resolutions", "pnpm"} {
		if inTreeText.Match(all[name]) {
			d.runs("a package of the repository that %s names", p)
		}
	}
	if d.has(path.Join(dir, "binding.gyp")) {
		d.runs("the build of %s", path.Join(dir, "binding.gyp"))
	}
	text, err := json.Marshal(keep)
	if err != nil {
		d.input(dir, "package.json")
		return
	}
	d.plan.inputs[p] = sha256.Sum256(text)
}
