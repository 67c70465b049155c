package tool

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/repomap"
)

const mapAbout = `List source files with their top-level functions, classes and types.`

// mapLines is how many lines a map is made of, mapBytes how many bytes of them are read.
const (
	mapLines = 40_000
	mapBytes = 3_900_000
	mapText  = 12_000 // of a map, in bytes
)

// mapScript finds the lines that a map is made of: those that may declare or import something. Only they leave the sandbox.
func mapScript() string {
	var specs, names []string
	for _, end := range repomap.Ends() {
		specs = append(specs, "'*"+end+"'")
		names = append(names, "-name '*"+end+"'")
	}
	return enter + `[ -z "$only" ] || exit 6
cut() { command cut -b 1-400 | head -n ` + strconv.Itoa(mapLines) + ` | head -c ` + strconv.Itoa(mapBytes) + `; }
if repo; then git grep -nIzE --no-color --untracked -e "$2" -- ` + strings.Join(specs, " ") + ` | cut
else find . \( -name .git -o -name node_modules \) -prune -o -type f \( ` + strings.Join(names, " -o ") + ` \) -print0 | sort -z | xargs -0 grep -nIHZE -e "$2" -- | cut; fi`
}

func (s *Set) mapping() *tool {
	return &tool{name: "map", about: mapAbout, run: s.runMap, input: fields{
		{name: "path", kind: "string", doc: "Where to look."},
	}}
}

func (s *Set) runMap(ctx context.Context, in args) (loop.Result, error) {
	w, err := s.place(orElse(in.str("path"), "."))
	if err != nil {
		return loop.Result{}, err
	}
	res, err := s.script(ctx, "", mapScript(), w.arg, repomap.Candidates)
	if err != nil {
		return loop.Result{}, err
	}
	if bad := s.lookFailed("map", w, res); bad != nil {
		return *bad, nil
	}
	var lines []repomap.Line
	eachMatch(res.out, func(name, number, line string) {
		n, err := strconv.Atoi(number)
		if err != nil {
			return // 12 digits at most
		}
		lines = append(lines, repomap.Line{Path: joinSay(w.say, name), N: n, Text: line})
	})
	text := repomap.Text(lines, mapText)
	if len(lines) >= mapLines || len(res.out) >= mapBytes {
		text += "\n[the repository is too large for one map: files at the end of the list are missing; set path to a directory]"
	}
	return loop.Result{Text: text, Short: fmt.Sprintf("map of %s", w.say)}, nil
}
