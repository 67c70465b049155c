package dependency

import (
	"crypto/sha256"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Provided returns the directory of the package of that name, as programs import it, that a commit has itself: a
// member of its workspaces, or a directory of modules. It is "" if there is none.
func Provided(t Tree, l api.Language, name string) string {
	switch l {
	case api.JavaScript, api.TypeScript:
		n := 0
		for _, p := range t.Paths {
			if path.Base(p) != "package.json" || !searched(path.Dir(p)) {
				continue
			}
			if n++; n > maxMembers {
				break
			}
			var pkg struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(t.Read(p), &pkg) == nil && pkg.Name == name {
				return path.Dir(p)
			}
		}
	case api.Python:
		for _, p := range t.Paths {
			dir, file := path.Split(p)
			if dir = path.Clean(dir); !searched(dir) {
				continue
			}
			if file == "__init__.py" && path.Base(dir) == name {
				return dir
			}
			if file == name+".py" {
				return p
			}
		}
	case api.Go:
		i := slices.IndexFunc(t.Paths, func(p string) bool {
			if path.Base(p) != "go.mod" || !searched(path.Dir(p)) {
				return false
			}
			for line := range strings.Lines(string(t.Read(p))) {
				if module, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
					module = strings.Trim(strings.TrimSpace(module), `"`)
					return name == module || strings.HasPrefix(name, module+"/")
				}
			}
			return false
		})
		if i >= 0 {
			return path.Dir(t.Paths[i])
		}
	}
	return ""
}

// imported are names of Python modules whose packages have quite another one.
var imported = map[string]string{"pil": "pillow", "cv2": "opencv-python", "bs4": "beautifulsoup4", "sklearn": "scikit-learn", "crypto": "pycryptodome", "git": "gitpython", "pkg-resources": "setuptools"}

// Needed reports whether a manifest of a commit names the package that programs import by a name. A package of Python often has another
// name than its module, of which the usual ones are known.
func Needed(t Tree, l api.Language, name string) bool {
	d := &detector{Tree: t, presets: map[string]bool{}, taken: map[string]bool{}, below: map[string][]string{}}
	d.plan.Env, d.plan.inputs = map[string]string{}, map[string][sha256.Size]byte{}
	n := 0
	for _, p := range t.Paths {
		dir := path.Dir(p)
		if !searched(dir) || n == maxMembers {
			continue
		}
		switch {
		case (l == api.JavaScript || l == api.TypeScript) && path.Base(p) == "package.json":
			n++
			var pkg map[string]json.RawMessage
			if json.Unmarshal(t.Read(p), &pkg) != nil {
				continue
			}
			for _, kind := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
				var some map[string]json.RawMessage
				if json.Unmarshal(pkg[kind], &some) == nil && some[name] != nil {
					return true
				}
			}
		case l == api.Python && slices.Contains(pythonManifests(), path.Base(p)):
			n++
			if slices.ContainsFunc(d.names(dir), func(pkg string) bool { return module(pkg, normal(name)) }) {
				return true
			}
		}
	}
	return false
}

// module reports whether a package of Python, by its normal name, probably has a module of a name.
func module(pkg, name string) bool {
	digits := strings.TrimRight(pkg, "0123456789")
	return slices.Contains([]string{name, "py" + name, "py-" + name, "python-" + name, name + "-python", name + "s", imported[name]}, pkg) || digits == name || strings.HasPrefix(pkg, name+"-")
}
