package dependency

import (
	"bytes"
	"path"
	"strings"
)

// golang downloads the modules and compiles everything, tests too, as the gate does, so that a gate compiles what changed. It runs nothing
// of it: a test's program is given to the program true. The code may well not compile: that is what a task repairs.
func (d *detector) golang(dir string) {
	p := path.Join(dir, "go.mod")
	d.input(dir, "go.sum", "go.work", "go.work.sum")
	d.plan.Env["GOMODCACHE"] = Cache + "/go/mod"
	d.plan.Env["GOCACHE"] = Cache + "/go/build"
	var steps []Step
	preset := ""
	if requires(d.Read(p)) && !d.has(path.Join(dir, "vendor/modules.txt")) {
		steps, preset = append(steps, install("go mod download", []string{Cache + "/go/mod"}, "go")), "go"
	}
	tests := d.GoTests
	if len(tests) == 0 {
		tests = []string{"go test"}
	}
	for _, test := range tests {
		run := test + " -exec true ./..."
		steps = append(steps, Step{
			Name: run, Run: run, Timeout: buildTimeout, Needs: []string{"go", "true"}, Optional: true, Offline: true,
			Results: []string{Cache + "/go/build"},
		})
	}
	d.add(p, preset, steps...)
}

// requires reports whether a go.mod has a require directive.
func requires(mod []byte) bool {
	for line := range bytes.Lines(mod) {
		if word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); string(word) == "require" || string(word) == "require(" {
			return true
		}
	}
	return false
}

func (d *detector) cargo(dir string) {
	d.input(dir, "rust-toolchain", "rust-toolchain.toml")
	d.plan.Env["CARGO_HOME"] = Cache + "/cargo"
	s := install("cargo fetch --locked", []string{Cache + "/cargo"}, "cargo")
	d.add(path.Join(dir, "Cargo.lock"), "", s)
}

func (d *detector) bundler(dir string) {
	d.input(dir, "Gemfile", ".ruby-version")
	d.runs("%s", path.Join(dir, "Gemfile")) // it is a program, and can load others
	d.plan.Env["BUNDLE_PATH"] = Cache + "/bundle"
	s := install("BUNDLE_FROZEN=true bundle install", []string{Cache + "/bundle"}, "bundle")
	s.Name = "bundle install"
	d.add(path.Join(dir, "Gemfile.lock"), "", s)
}

// unlockedBundler installs the newest versions that a Gemfile allows. The lock file that bundler writes is part of the result.
func (d *detector) unlockedBundler(dir string) {
	p := path.Join(dir, "Gemfile")
	if d.aside(p) {
		return
	}
	d.input(dir, "Gemfile", ".ruby-version")
	for _, f := range d.Paths {
		if path.Dir(f) == dir && path.Ext(f) == ".gemspec" {
			d.input(dir, path.Base(f))
		}
	}
	d.runs("%s", p)
	d.plan.Env["BUNDLE_PATH"] = Cache + "/bundle"
	d.unlocked(p, "bundler")
	s := install("bundle install", []string{Cache + "/bundle", path.Join(dir, "Gemfile.lock")}, "bundle")
	s.Name, s.Optional = "bundle install", dir != "."
	d.found(dir, p, "", s)
}

// maven resolves a project with its modules.
func (d *detector) maven(dir string) {
	d.below["java"] = append(d.below["java"], dir)
	n := 0
	for _, p := range d.Paths {
		if path.Base(p) == "pom.xml" && searched(path.Dir(p)) && (dir == "." || strings.HasPrefix(p, dir+"/")) {
			d.input(path.Dir(p), "pom.xml")
			if n++; n == maxMembers {
				break
			}
		}
	}
	for _, p := range d.Paths {
		if below := strings.TrimPrefix(p, strings.TrimPrefix(dir+"/", "./")); strings.HasPrefix(below, ".mvn/") {
			d.input(path.Dir(p), path.Base(p))
			d.runs("what %s names", path.Join(dir, ".mvn"))
		}
	}
	const repository = "-Dmaven.repo.local=" + Cache + "/maven"
	d.plan.Env["MAVEN_OPTS"] = repository
	s := install("mvn -B -q -Dstyle.color=never dependency:go-offline", []string{Cache + "/maven"}, "mvn")
	s.Name = "mvn dependency:go-offline"
	d.add(path.Join(dir, "pom.xml"), "", s)
}

// composer installs the packages of PHP, and runs nothing of theirs.
func (d *detector) composer(dir string) {
	d.input(dir, "composer.json")
	d.plan.Env["COMPOSER_CACHE_DIR"] = Cache + "/composer"
	s := install("composer install --no-scripts --no-plugins --no-interaction --no-progress", []string{path.Join(dir, "vendor"), Cache + "/composer"}, "composer")
	s.Name = "composer install"
	d.add(path.Join(dir, "composer.lock"), "", s)
}
