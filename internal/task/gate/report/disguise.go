package report

import (
	_ "embed"
	"encoding/json"
	"path"
	"strings"
)

// Disguise is what differs in a run from how a gate usually runs: a program that asks whether it is tested behaves as in use then.
type Disguise struct {
	Parts Part
	// Token is a part of the names of test files, which no report has; empty if they have their own names.
	Token string
}

// Part is one of the differences.
type Part int

// Parts of a disguise.
const (
	// Names are variables of the environment, the name and the arguments of the program, and the modules of its runner.
	Names Part = 1 << iota
	// Files are the names of the test files. Who writes them renames them, see [Disguise].Token.
	Files
	// Place is the directory.
	Place
	// Date is the date.
	Date
	// Order is the order of the tests.
	Order
	// Everything is all of them.
	Everything = Names | Files | Place | Date | Order
)

// Says names the parts for a person.
func (p Part) Says() string {
	var out []string
	for i, text := range []string{"environment, arguments and modules", "test files", "directory", "date", "order of tests"} {
		if p&(1<<i) != 0 {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// shiftDays is how much later the date is: far enough for a moment that a program may compare with, and within what formats of files know.
const shiftDays = 27_100

// Disguised gives a plan of the same runs in disguise.
func (p Plan) Disguised(d Disguise) Plan {
	p.disguise = d
	return p
}

// Reports reports whether the runner of a command is one that a disguise is for.
func (p Plan) Reports() bool { return p.kind != plain && p.kind != rust }

func (d Disguise) has(p Part) bool { return d.Parts&p != 0 }

// facts are what a runner of ours knows of its disguise, as JSON.
func (d Disguise) facts() []byte {
	f := struct {
		Names bool   `json:"names"`
		Order bool   `json:"order"`
		Days  int    `json:"days"`
		Token string `json:"token"`
	}{Names: d.has(Names), Order: d.has(Order), Token: d.Token}
	if d.has(Date) {
		f.Days = shiftDays
	}
	text, _ := json.Marshal(f) // such a struct always encodes
	return text
}

// argumentsApart gives a command that reads its arguments from a file beside its program.
func argumentsApart(command, args, dir string) string {
	lead, program := "", command
	if at, rest, ok := strings.Cut(command, " && "); ok { // the words can be patterns in that directory
		lead, program = at+" && ", rest
	}
	return lead + `printf '%s\n'` + args + " >" + dir + "/args && " + program
}

// goProgram is what starts the test programs of Go.
const goProgram = "start"

//go:embed start.sh
var goStart []byte

// flags are those of go test.
func (d Disguise) flags(file func(string, []byte) string) (out string) {
	if d.has(Names) {
		out = " -exec=" + file(goProgram, goStart)
	}
	if d.has(Order) {
		out += " -shuffle=1"
	}
	return out
}

// elsewhere gives what a command begins with that runs in a copy of its directory. What is large and was installed is not copied; a
// directory that is too large stays where it is.
func (d Disguise) elsewhere(dir string) string {
	if !d.has(Place) {
		return ""
	}
	return strings.ReplaceAll(`place="PLACE"
if [ "$(du -sk . 2>/dev/null | cut -f1)" -lt 1048576 ] && mkdir -p "$place"; then
  for f in * .[!.]*; do
    case $place/ in "$PWD/$f/"*) continue ;; esac
    case $f in
    .git) ;;
    node_modules | .venv | venv | target) ln -s "$PWD/$f" "$place/$f" ;;
    *) [ ! -e "$f" ] && [ ! -L "$f" ] || cp -a "$f" "$place/" ;;
    esac
  done
  cd "$place"
fi
`, "PLACE", path.Join(dir, "work"))
}

// without gives the report with the names that the tests have in files of their own names.
func (r Report) without(token string) Report {
	if token == "" {
		return r
	}
	clean := func(s string) string { return strings.ReplaceAll(s, token, "") }
	tests := r.Tests
	r.Tests = nil
	for name, o := range tests {
		r.add(clean(name), o)
	}
	for _, names := range [][]string{r.Lost, r.Tampered} {
		for i := range names {
			names[i] = clean(names[i])
		}
	}
	return r
}
