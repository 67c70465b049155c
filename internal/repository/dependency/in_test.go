package dependency

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestIn moves the plan of a repository to a directory of the workspace.
func TestIn(t *testing.T) {
	tree := Tree{
		Paths: []string{"package-lock.json", "requirements.txt", "web/package-lock.json"},
		Read: func(p string) []byte {
			return []byte(map[string]string{"package-lock.json": "{}", "web/package-lock.json": "{}", "requirements.txt": "six==1.0\n"}[p])
		},
	}
	plan := Detect(tree)
	moved := plan.In("lib")
	var got []string
	for _, s := range moved.Steps {
		got = append(got, s.Name+" at "+s.Dir+": "+strings.Join(s.Results, " "))
	}
	want := []string{
		"npm ci in lib at lib: lib/node_modules /workspace/.git/hortus/npm",
		"pip install in lib at lib: /workspace/.git/hortus/python/lib /workspace/.git/hortus/pip",
		"npm ci in lib/web at lib/web: lib/web/node_modules /workspace/.git/hortus/npm",
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := moved.Env["PYTHONPATH"]; got != "/workspace/.git/hortus/python/lib" {
		t.Errorf("PYTHONPATH is %s", got)
	}
	if !strings.Contains(moved.Steps[1].Run, "--target /workspace/.git/hortus/python/lib ") {
		t.Errorf("pip runs %s", moved.Steps[1].Run)
	}
	if got := strings.Join(moved.From, " "); got != "lib/package-lock.json lib/requirements.txt lib/web/package-lock.json" {
		t.Errorf("from %s", got)
	}
	keys := map[string]bool{}
	for _, p := range []Plan{plan, moved, plan.In("app"), plan.In("lib")} {
		keys[p.Key("zone", "r", "main", "tools")] = true
	}
	if len(keys) != 3 {
		t.Errorf("%d keys for three places", len(keys))
	}
	if plan.Env["PYTHONPATH"] != "/workspace/.git/hortus/python" || plan.Steps[0].Name != "npm ci" || plan.Steps[0].Results[0] != "node_modules" {
		t.Errorf("the plan itself was changed: %+v", plan)
	}
	recipe, err := ParseRecipe(Tree{Paths: []string{RecipePath}, Read: func(string) []byte {
		return []byte("steps:\n  - run: make\n    dir: sub\nservices:\n  - name: db\n    run: db\n")
	}})
	if err != nil {
		t.Fatal(err)
	}
	recipe = recipe.In("lib")
	if s := recipe.Steps[0]; s.Name != "make in lib/sub" || s.Dir != "lib/sub" {
		t.Errorf("a step of a recipe: %+v", s)
	}
	if s := recipe.Services[0]; s.Name != "db of lib" || s.Dir != "lib" {
		t.Errorf("a service: %+v", s)
	}
}

// TestProvided: a package that a commit has itself is found under the name that programs import.
func TestProvided(t *testing.T) {
	files := map[string]string{
		"package.json": `{"name":"shop","workspaces":["packages/*"]}`, "packages/core/package.json": `{"name":"@shop/core"}`, "node_modules/jest/package.json": `{"name":"jest"}`,
		"src/app/__init__.py": "", "tools/check.py": "", "go.mod": "// the shop\nmodule example.org/shop\n", "broken/package.json": "{",
	}
	tree := Tree{Paths: slices.Sorted(maps.Keys(files)), Read: func(p string) []byte { return []byte(files[p]) }}
	for _, c := range []struct {
		lang       api.Language
		name, want string
	}{
		{api.JavaScript, "@shop/core", "packages/core"}, {api.TypeScript, "shop", "."}, {api.JavaScript, "jest", ""},
		{api.Python, "app", "src/app"}, {api.Python, "check", "tools/check.py"}, {api.Python, "numpy", ""},
		{api.Go, "example.org/shop/cart", "."}, {api.Go, "example.org/shopping", ""}, {api.Ruby, "app", ""},
	} {
		if got := Provided(tree, c.lang, c.name); got != c.want {
			t.Errorf("%s %s: %q", c.lang, c.name, got)
		}
	}
}

// TestNeeded: a package that a manifest names is known by what programs import, and no other word of a manifest is one.
func TestNeeded(t *testing.T) {
	files := map[string]string{
		"pyproject.toml":   "[project]\nname = 'shop'\ndescription = 'a calc of prices'\ndependencies = ['PyYAML>=6', 'python-dateutil', 'psycopg2-binary', 'Pillow', 'attrs']\n[dependency-groups]\ntests = ['freezegun']\n",
		"requirements.txt": "beautifulsoup4==4.12\n", "web/package.json": `{"devDependencies":{"@shop/core":"1","mocha":"10"},"description":"left-pad"}`, "node_modules/a/package.json": `{"dependencies":{"left-pad":"1"}}`,
		"broken/package.json": "{",
	}
	for _, c := range []struct {
		lang api.Language
		name string
		want bool
	}{
		{api.Python, "freezegun", true}, {api.Python, "yaml", true}, {api.Python, "dateutil", true}, {api.Python, "psycopg2", true}, {api.Python, "PIL", true}, {api.Python, "attr", true}, {api.Python, "bs4", true},
		{api.Python, "calc", false}, {api.Python, "shop", false}, {api.Python, "mocha", false},
		{api.JavaScript, "mocha", true}, {api.TypeScript, "@shop/core", true}, {api.JavaScript, "left-pad", false}, {api.JavaScript, "freezegun", false}, {api.Go, "mocha", false},
	} {
		if got := Needed(tree(files), c.lang, c.name); got != c.want {
			t.Errorf("%s %s: %t", c.lang, c.name, got)
		}
	}
}

// TestSources: what is true without an installation is where the packages of the repository itself are.
func TestSources(t *testing.T) {
	files := map[string]string{"pyproject.toml": "[project]\ndependencies = ['a']\n", "src/a/__init__.py": "", "lib/pyproject.toml": "[project]\ndependencies = ['b']\n", "lib/src/b/__init__.py": ""}
	if got := Detect(tree(files)).In("x").Sources(); len(got) != 1 || got["PYTHONPATH"] != "/workspace/x/src:/workspace/x/lib/src" {
		t.Errorf("%v", got)
	}
	if got := Detect(tree(map[string]string{"pyproject.toml": "[project]\ndependencies = ['a']\n"})).Sources(); len(got) != 0 {
		t.Errorf("a project without that layout: %v", got)
	}
}
