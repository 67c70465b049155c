package dependency

import (
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
