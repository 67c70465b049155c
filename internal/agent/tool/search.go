package tool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Bounds of search and find.
const (
	searchLines = 200
	searchMost  = 1000
	searchWidth = 300 // bytes of one line that are shown
	searchCount = 5000
)

const searchAbout = `Search file contents. Each result is path:line:text. The syntax is that of grep -E: use [0-9] and [[:space:]] instead of \d and \s. Files that Git ignores are skipped. It also searches saved output such as "output:3".`

func (s *Set) search() *tool {
	return &tool{name: "search", about: searchAbout, run: s.runSearch, input: fields{
		{name: "pattern", kind: "string", need: true, doc: `Regular expression. Example: "def (load|save)_[a-z]+".`},
		{name: "path", kind: "string", doc: "Where to search."},
		{name: "glob", kind: "string", doc: `Names of files. Example: "*.py" or "src/**/*.ts".`},
		{name: "max", kind: "integer", min: 1, max: searchMost, doc: "Maximum of lines. The default is 200."},
	}}
}

// Both scripts begin in the directory to look in, and say how they look. Names
// are ended with NUL: they may hold anything else. grep looks at one line at a
// time, so a line of a gigabyte is held by the sandbox alone and cut there.
const (
	enter = `p=$1; if [ -d "$p" ]; then cd -- "$p" || exit 8; only=; elif [ -e "$p" ]; then cd -- "$(dirname -- "$p")" || exit 8; only=$(basename -- "$p"); else exit 9; fi
have=$(command -v git)
git() { command git -c safe.directory='*' -c core.fsmonitor=false "$@"; }
repo() { [ -n "$have" ] && [ "$(git rev-parse --is-inside-work-tree 2>/dev/null)" = true ]; }
`
	searchScript = enter + `printf '' | grep -E -e "$2" >/dev/null; [ $? -le 1 ] || exit 7
cut() { command cut -b 1-1500 | head -n "$4" | head -c 3000000; }
if [ -n "$only" ]; then grep -nIHZE -e "$2" -- "./$only" | cut "$@"
elif repo; then git grep -nIzE --no-color --untracked -e "$2" -- ":(glob)$3" | cut "$@"
else find . -name .git -prune -o -type f $5 "$6" -print0 | xargs -0 grep -nIHZE -e "$2" -- | cut "$@"; fi`
	findScript = enter + `if [ -n "$only" ]; then exit 6
elif repo; then git ls-files -z --cached --others --exclude-standard -- ":(glob)$2" |
	xargs -0 sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh | head -c 3000000
else find . -name .git -prune -o ! -type d $3 "$4" -print0 | head -c 3000000; fi`
)

// globs turns a pattern for names into git's and find's own: a name at any depth,
// or a path below the directory.
func globs(glob string) (pathspec, option, pattern string, err error) {
	glob = strings.TrimPrefix(glob, "./")
	switch {
	case glob == "":
		glob = "*"
	case len(glob) > 500 || strings.ContainsAny(glob, "\x00\n\r"):
		return "", "", "", teach("the glob exceeds 500 bytes or contains a line break")
	case strings.HasPrefix(glob, "/") || strings.Contains("/"+glob+"/", "/../"):
		return "", "", "", teach("the glob %q points outside path; set path to a directory and use a glob below it", clip(glob, 80))
	}
	if !strings.Contains(glob, "/") {
		return "**/" + glob, "-name", glob, nil
	}
	// find's * goes across slashes, so ** is only a * there.
	pattern = strings.ReplaceAll(strings.ReplaceAll(glob, "**/", "*"), "**", "*")
	return glob, "-path", "./" + pattern, nil
}

func (s *Set) runSearch(ctx context.Context, in args) (loop.Result, error) {
	pattern, show := in.str("pattern"), int(in.num("max", searchLines))
	switch {
	case pattern == "":
		return loop.Result{}, teach("the pattern is empty")
	case len(pattern) > 4000 || strings.ContainsAny(pattern, "\x00\n"):
		return loop.Result{}, teach("the pattern exceeds 4000 bytes or contains a line break; patterns match within single lines")
	}
	p := orElse(in.str("path"), ".")
	if strings.HasPrefix(p, outputPrefix) && s.cfg.Keep != nil {
		return s.searchOutput(ctx, p, pattern, show)
	}
	w, err := s.place(p)
	if err != nil {
		return loop.Result{}, err
	}
	pathspec, option, name, err := globs(in.str("glob"))
	if err != nil {
		return loop.Result{}, err
	}
	res, err := s.script(ctx, "", searchScript, w.arg, pattern, pathspec, fmt.Sprint(searchCount+1), option, name)
	if err != nil {
		return loop.Result{}, err
	}
	if res.exit.Code == 7 {
		why := strings.TrimSpace(strings.TrimPrefix(visible(clip(string(bytes.TrimSpace(res.errs)), 200)), "grep:"))
		return failed("search: invalid pattern", "The pattern is not a valid extended regular expression: %s. Escape ( ) [ ] { } + ? * | . ^ $ with \\ to match them literally. \\d and lookahead are not supported.", why), nil
	}
	if bad := s.lookFailed("search", w, res); bad != nil {
		return *bad, nil
	}
	ms := matches(res.out, w)
	return matchResult(pattern, w.say, ms, show, len(res.out) >= 3_000_000 || len(ms) > searchCount), nil
}

// place is where, for looking in: never in git's own files.
func (s *Set) place(p string) (where, error) {
	w, err := s.where(p)
	if err == nil && inGit(w.abs) {
		err = teach("%s is Git's internal directory; use git with shell (git log, git show, git config)", w.say)
	}
	return w, err
}

// lookFailed is the answer where a script could not look.
func (s *Set) lookFailed(name string, w where, res scriptResult) *loop.Result {
	var r loop.Result
	switch {
	case res.exit.Cause == api.CauseTimeout:
		r = failed(name+": timeout", "The search of %s exceeded %d s and was stopped. Set path to a smaller directory, or set glob.", w.say, int(scriptTime.Seconds()))
	case res.exit.Cause != "":
		r = failed(name+": killed", "The search was killed: %s.", visible(clip(res.exit.Cause, 100)))
	case res.exit.Code == 9:
		r = failed(name+": no "+w.say, "%s does not exist.", w.say)
	case res.exit.Code == 8:
		r = failed(name+": "+w.say, "%s cannot be opened: %s", w.say, visible(clip(string(res.errs), 200)))
	case res.exit.Code == 6:
		r = failed(name+": "+w.say, "%s is not a directory.", w.say)
	default:
		return nil
	}
	return &r
}

// matches lists what grep said.
func matches(out []byte, w where) (all []string) {
	eachMatch(out, func(name, number, line string) {
		all = append(all, fmt.Sprintf("%s:%s:%s", joinSay(w.say, name), number, shownLine(line)))
	})
	return all
}

// eachMatch reads what grep said: a name, NUL, a number, a colon or NUL, the line.
// What does not look so was cut, and is left out.
func eachMatch(out []byte, each func(name, number, line string)) {
	for len(out) > 0 {
		i := bytes.IndexByte(out, 0)
		if i < 0 {
			break
		}
		name := string(out[:i])
		out = out[i+1:]
		digits := 0
		for digits < len(out) && out[digits] >= '0' && out[digits] <= '9' {
			digits++
		}
		if digits == 0 || digits > 12 || digits == len(out) || out[digits] != ':' && out[digits] != 0 {
			break
		}
		line, rest, _ := bytes.Cut(out[digits+1:], []byte("\n"))
		number := string(out[:digits])
		out = rest
		each(name, number, string(line))
	}
}

// shownLine is one line of a file, as a match shows it.
func shownLine(l string) string {
	l = strings.TrimSuffix(l, "\r")
	v := visible(l)
	if len(v) > searchWidth {
		return clip(v, searchWidth) + " [cut]"
	}
	return v
}

// joinSay names a file that was found below a place.
func joinSay(base, name string) string {
	name = strings.TrimPrefix(name, "./")
	if path.Base(base) == name {
		return visible(base) // the file itself was looked in
	}
	if base == "." {
		return visible(name)
	}
	return visible(strings.TrimSuffix(base, "/") + "/" + name)
}

func matchResult(pattern, place string, all []string, show int, more bool) loop.Result {
	short := fmt.Sprintf("search %q in %s  -> %d", clip(pattern, 60), place, len(all))
	if len(all) == 0 {
		return loop.Result{Text: "No lines match.", Short: visible(short)}
	}
	var b strings.Builder
	n := 0
	for _, l := range all[:min(show, len(all))] {
		if b.Len()+len(l) > maxText {
			break
		}
		b.WriteString(l + "\n")
		n++
	}
	count := fmt.Sprint(len(all))
	if more {
		count, short = "more than "+fmt.Sprint(len(all)-1), short+" or more"
	}
	if n < len(all) || more {
		fmt.Fprintf(&b, "[%d of %s matching lines shown; narrow pattern, path or glob]", n, count)
	} else {
		fmt.Fprintf(&b, "[%d matching lines]", n)
	}
	return loop.Result{Text: b.String(), Short: visible(short)}
}

// searchOutput looks in a kept output, here: its dialect is Go's, which takes
// nearly all of ERE.
func (s *Set) searchOutput(ctx context.Context, name, pattern string, show int) (loop.Result, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return failed("search: invalid pattern", "The pattern is not a valid regular expression: %v", err), nil
	}
	r, err := s.cfg.Keep.Open(name)
	if err != nil {
		return loop.Result{}, err
	}
	defer r.Close()
	br := bufio.NewReaderSize(r, 64<<10)
	var all []string
	for n := 1; len(all) <= searchCount; n++ {
		line, _, err := readLine(br, 64<<10)
		if err == io.EOF {
			break
		}
		if err != nil {
			return loop.Result{}, api.Errorf(api.KindInternal, "read %s: %w", name, err)
		}
		if n%1000 == 0 && ctx.Err() != nil {
			return loop.Result{}, ctx.Err()
		}
		if re.MatchString(line) {
			all = append(all, fmt.Sprintf("%s:%d:%s", name, n, shownLine(line)))
		}
	}
	return matchResult(pattern, name, all, show, len(all) > searchCount), nil
}

const findAbout = `List files by name. Files that Git ignores are skipped.`

func (s *Set) find() *tool {
	return &tool{name: "find", about: findAbout, run: s.runFind, input: fields{
		{name: "glob", kind: "string", need: true, doc: `Names of files. Example: "*.py" or "src/**/*.ts".`},
		{name: "path", kind: "string", doc: "Where to look."},
	}}
}

func (s *Set) runFind(ctx context.Context, in args) (loop.Result, error) {
	w, err := s.place(orElse(in.str("path"), "."))
	if err != nil {
		return loop.Result{}, err
	}
	pathspec, option, name, err := globs(in.str("glob"))
	if err != nil {
		return loop.Result{}, err
	}
	res, err := s.script(ctx, "", findScript, w.arg, pathspec, option, name)
	if err != nil {
		return loop.Result{}, err
	}
	if bad := s.lookFailed("find", w, res); bad != nil {
		return *bad, nil
	}
	var all []string
	out := string(res.out)
	for len(out) > 0 {
		name, rest, whole := strings.Cut(out, "\x00")
		if !whole {
			break
		}
		all = append(all, joinSay(w.say, name))
		out = rest
	}
	slices.Sort(all)
	all = slices.Compact(all)
	short := fmt.Sprintf("find %s in %s  -> %d", visible(clip(in.str("glob"), 60)), w.say, len(all))
	if len(all) == 0 {
		return loop.Result{Text: "No files match.", Short: short}, nil
	}
	n := min(len(all), searchLines)
	text := strings.Join(all[:n], "\n")
	if len(text) > maxText {
		text = clip(text, maxText)
	}
	if n < len(all) {
		text += fmt.Sprintf("\n[%d of %d files shown; narrow glob or path]", n, len(all))
	} else {
		text += fmt.Sprintf("\n[%d files]", n)
	}
	return loop.Result{Text: text, Short: short}, nil
}
