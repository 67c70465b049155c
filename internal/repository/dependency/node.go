package dependency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// npmCache and nodeTools are the cache of npm, and the package managers that npm installs.
const (
	npmCache  = Cache + "/npm"
	nodeTools = Cache + "/node"
)

func (d *detector) npm(dir string) {
	lock := "npm-shrinkwrap.json"
	if d.has(path.Join(dir, "package-lock.json")) {
		lock = "package-lock.json"
	}
	d.node(dir, ".npmrc")
	d.plan.Env["npm_config_cache"] = npmCache
	d.add(path.Join(dir, lock), "npm", install("npm ci", []string{path.Join(dir, "node_modules"), npmCache}, "npm"))
}

func (d *detector) pnpm(dir string) {
	p := path.Join(dir, "pnpm-lock.yaml")
	d.node(dir, ".npmrc", "pnpm-workspace.yaml", ".pnpmfile.cjs")
	m := d.named(dir)
	if m.name != "pnpm" {
		m = manager{name: "pnpm", version: pnpmOf(d.Read(p)), any: true}
	}
	d.add(p, "npm", d.bring(m), d.pnpmInstall(dir, "--frozen-lockfile"))
}

func (d *detector) pnpmInstall(dir, lock string) Step {
	s := install("pnpm install "+lock+" --store-dir /tmp/pnpm --package-import-method copy", []string{path.Join(dir, "node_modules")}, "npm")
	s.Name = "pnpm install"
	return s
}

// pnpmOf returns the major version of pnpm that writes lock files of this format.
func pnpmOf(lock []byte) string {
	line, _, _ := bytes.Cut(lock, []byte("\n"))
	format, _ := bytes.CutPrefix(line, []byte("lockfileVersion:"))
	switch strings.Trim(string(bytes.TrimSpace(format)), `'"`) {
	case "5.1", "5.2", "5.3":
		return "6"
	case "5.4":
		return "7"
	case "6.0", "6.1":
		return "8"
	}
	return "10"
}

func (d *detector) yarn(dir string) {
	p := path.Join(dir, "yarn.lock")
	d.node(dir, ".npmrc", ".yarnrc", ".yarnrc.yml")
	lock := d.Read(p)
	modern := bytes.Contains(lock, []byte("\n__metadata:")) // yarn 2 and later
	m := d.named(dir)
	if own := yarnPath.Match(d.Read(path.Join(dir, ".yarnrc.yml"))); m.name != "yarn" || m.classic() == modern || own { // any Yarn starts the repository's own
		m = manager{name: "yarn", version: yarnOf(lock), any: true}
	}
	s := d.yarnInstall(dir, "--frozen-lockfile")
	if modern {
		s.Run = modernMirror + "yarn install --immutable"
		s.Results = append(s.Results, path.Join(dir, ".yarn"), path.Join(dir, ".pnp.cjs"))
		d.plan.Env["YARN_ENABLE_GLOBAL_CACHE"], d.plan.Env["YARN_ENABLE_TELEMETRY"] = "false", "false"
	}
	d.add(p, "npm", d.bring(m), s)
}

var yarnPath = lazyregexp.New(`(?m)^yarnPath:`)

// yarnMirror writes another registry, if the sandbox has one, into a lock file of Yarn 1: that has the whole addresses of archives,
// and Yarn uses those. Their digests stay. What a step changes in a file of the repository is not in its result.
const yarnMirror = `if [ -n "$YARN_REGISTRY" ] && [ -f yarn.lock ]; then ` +
	`sed -i 's#"https\{0,1\}://[^/"]*/\(\(@[^/"]*/\)\{0,1\}[^/"]*/-/\)#"'"${YARN_REGISTRY%/}"'/\1#' yarn.lock; fi; `

// modernMirror has a later Yarn use the registry of the sandbox, if it has one and the repository names none.
const modernMirror = `if [ -n "$YARN_REGISTRY" ] && ! grep -qs '^npmRegistryServer:' .yarnrc.yml; then ` +
	`export YARN_NPM_REGISTRY_SERVER="${YARN_REGISTRY%/}"; case $YARN_REGISTRY in http:*) export YARN_UNSAFE_HTTP_WHITELIST='*' ;; esac; fi; `

func (d *detector) yarnInstall(dir, lock string) Step {
	s := install(yarnMirror+"yarn install "+lock+" --non-interactive --cache-folder /tmp/yarn", []string{path.Join(dir, "node_modules")}, "npm")
	s.Name = "yarn install"
	return s
}

// yarnOf returns the version of Yarn that writes lock files of this format.
func yarnOf(lock []byte) string {
	_, rest, modern := bytes.Cut(lock, []byte("\n__metadata:\n"))
	if !modern {
		return "1.22"
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	format, _ := bytes.CutPrefix(bytes.TrimSpace(line), []byte("version:"))
	switch string(bytes.TrimSpace(format)) {
	case "4":
		return "2"
	case "5", "6", "7":
		return "3"
	}
	return "4"
}

// manager is a package manager of Node.
type manager struct {
	name, version string
	// algorithm and sum are the digest that package.json has of it; empty if it has none.
	algorithm, sum string
	// any is true if the one of the sandbox will do.
	any bool
}

func (m manager) classic() bool {
	return m.name == "yarn" && (strings.HasPrefix(m.version, "1.") || strings.HasPrefix(m.version, "0."))
}

// packageManager is the field of that name in a package.json. What it does not match is not used: the parts are in a command.
var packageManager = lazyregexp.New(`^(pnpm|yarn)@([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:-[0-9A-Za-z.]{1,32})?)(?:\+(sha1|sha224|sha256|sha384|sha512)\.([0-9a-f]{40,128}))?$`)

// named returns the package manager that a package.json names. Its name is "" if it names none but npm.
func (d *detector) named(dir string) manager {
	var pkg struct {
		PackageManager json.RawMessage `json:"packageManager"`
	}
	var text string
	p := path.Join(dir, "package.json")
	if json.Unmarshal(d.Read(p), &pkg) != nil || json.Unmarshal(pkg.PackageManager, &text) != nil || strings.HasPrefix(text, "npm@") {
		return manager{}
	}
	m := packageManager.FindStringSubmatch(text)
	if m == nil {
		d.warn("packageManager of %s is not pnpm or yarn with a version: it is not used", p)
		return manager{}
	}
	return manager{name: m[1], version: m[2], algorithm: m[3], sum: m[4]}
}

// bring is the step that installs a package manager with npm, next to the repository. It is called there, where no
// .npmrc of the repository is read.
func (d *detector) bring(m manager) Step {
	pkg, file := m.name, ""
	if m.name == "yarn" && !m.classic() {
		// The digest of a later Yarn is that of its program.
		pkg, file = "@yarnpkg/cli-dist", "node_modules/@yarnpkg/cli-dist/bin/yarn.js"
	}
	pkg += "@" + m.version
	d.path(nodeTools + "/node_modules/.bin")
	const options = " --prefix . --ignore-scripts --no-audit --no-fund "
	run := "npm install" + options + pkg
	if m.sum != "" {
		check := func(file string) string {
			return fmt.Sprintf(`{ [ "$(%ssum < %s)" = "%s  -" ] || { echo "%s has another digest than packageManager of package.json" >&2; exit 1; }; }`, m.algorithm, file, m.sum, pkg)
		}
		if file != "" {
			run += " && " + check(file)
		} else {
			file = m.name + "-" + m.version + ".tgz"
			run = "npm pack --prefix . --silent " + pkg + " && " + check(file) + " && npm install" + options + "./" + file
		}
	}
	run = "mkdir -p " + nodeTools + " && cd " + nodeTools + " && " + run
	if m.any {
		run = "command -v " + m.name + " >/dev/null || { " + run + "; }"
	}
	s := install(run, []string{nodeTools}, "npm")
	s.Name = "npm install " + pkg
	return s
}

// node adds what the package managers of Node have in common. Their workspaces are projects below.
func (d *detector) node(dir string, files ...string) {
	d.manifest(dir)
	d.input(dir, files...)
	d.input(dir, ".node-version", ".nvmrc")
	for _, name := range files {
		if p := path.Join(dir, name); d.has(p) && !plainSettings(name, d.Read(p)) {
			d.runs("what %s names", p)
		}
	}
	d.below["node"] = append(d.below["node"], d.members(dir)...)
}

// plainSettings reports whether a file of settings names no code of the repository. Only what is known to name none passes.
func plainSettings(name string, text []byte) bool {
	plain := []string{
		"registry", "save-exact", "save-prefix", "engine-strict", "legacy-peer-deps", "fund", "audit", "loglevel", "package-lock", "update-notifier",
		"strict-peer-dependencies", "auto-install-peers", "shamefully-hoist", "public-hoist-pattern", "node-linker", "ignore-scripts", "prefer-workspace-packages", "link-workspace-packages", "save-workspace-protocol",
		"packages", "nodeLinker", "enableTelemetry", "enableGlobalCache", "compressionLevel", "nmMode", "npmRegistryServer",
	}
	if path.Ext(name) == ".cjs" {
		return false
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "- ") {
			continue
		}
		if name, _, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "@") && strings.HasSuffix(strings.TrimSpace(name), ":registry") {
			continue
		}
		end := strings.IndexAny(line, "=: ")
		if end < 0 || !slices.Contains(plain, strings.TrimSuffix(line[:end], "[]")) {
			return false
		}
	}
	return true
}

// members returns the directory itself if its package.json has workspaces: they are installed with it.
func (d *detector) members(dir string) []string {
	var pkg struct {
		Workspaces json.RawMessage `json:"workspaces"`
	}
	if json.Unmarshal(d.Read(path.Join(dir, "package.json")), &pkg) == nil && len(pkg.Workspaces) > 0 || d.has(path.Join(dir, "pnpm-workspace.yaml")) {
		// The manifests of its members decide too.
		n := 0
		for _, p := range d.Paths {
			if path.Base(p) == "package.json" && searched(path.Dir(p)) && (dir == "." || strings.HasPrefix(p, dir+"/")) {
				d.manifest(path.Dir(p))
				if n++; n == maxMembers {
					break
				}
			}
		}
		return []string{dir}
	}
	return nil
}

// unlockedNode installs the newest versions that a package.json allows.
func (d *detector) unlockedNode(dir string) {
	var pkg map[string]json.RawMessage
	p := path.Join(dir, "package.json")
	if json.Unmarshal(d.Read(p), &pkg) != nil {
		return
	}
	needs := len(d.members(dir)) > 0
	for _, name := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
		var some map[string]json.RawMessage
		needs = needs || json.Unmarshal(pkg[name], &some) == nil && len(some) > 0
	}
	if !needs || d.aside(p) {
		return
	}
	var steps []Step
	switch m := d.named(dir); {
	case m.name == "pnpm":
		steps = []Step{d.bring(m), d.pnpmInstall(dir, "--no-lockfile")}
	case m.classic():
		steps = []Step{d.bring(m), d.yarnInstall(dir, "--no-lockfile")}
	default:
		d.plan.Env["npm_config_cache"] = npmCache
		s := install("npm install --no-package-lock --no-audit --no-fund", []string{path.Join(dir, "node_modules"), npmCache}, "npm")
		s.Name = "npm install"
		steps = []Step{s}
	}
	program, _, _ := strings.Cut(steps[len(steps)-1].Name, " ")
	d.unlocked(p, program)
	for i := range steps {
		steps[i].Optional = dir != "." // one that fails must not take away what the others installed
	}
	d.found(dir, p, "npm", steps...)
	d.node(dir, ".npmrc", "pnpm-workspace.yaml", ".pnpmfile.cjs", ".yarnrc")
}
