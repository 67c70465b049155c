package language

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
)

// All returns the languages, in the order in which they are listed to people.
func All() []Language { return slices.Clone(table) }

// Names returns their names, in the same order.
func Names() []string {
	names := make([]string, len(table))
	for i, l := range table {
		names[i] = string(l.Name)
	}
	return names
}

// Titles lists them for people: "Python, JavaScript, ... and Perl".
func Titles() string {
	titles := make([]string, len(table))
	for i, l := range table {
		titles[i] = l.Title
	}
	last := len(titles) - 1
	return strings.Join(titles[:last], ", ") + " and " + titles[last]
}

// Of returns the language of a name of the api package.
func Of(name api.Language) (Language, bool) {
	i := slices.IndexFunc(table, func(l Language) bool { return l.Name == name })
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// Named returns the language that people call so, in any case: "golang", "C++", "ts".
func Named(name string) (Language, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	i := slices.IndexFunc(table, func(l Language) bool {
		return string(l.Name) == name || strings.ToLower(l.Title) == name || slices.Contains(l.Others, name)
	})
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// OfFile returns the language of a file by the ending of its name.
func OfFile(name string) (Language, bool) {
	end := strings.ToLower(path.Ext(name))
	if end == "" {
		return Language{}, false
	}
	if l, ok := Named(end[1:]); ok {
		return l, true
	}
	i := slices.IndexFunc(table, func(l Language) bool { return path.Ext(l.Main) == end })
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// Lacks returns the first thing that the language needs and the tools of a sandbox do not
// have, or "".
func (l Language) Lacks(tools []api.Tool) string {
	for _, need := range l.Needs {
		choices := strings.Split(need, "|")
		if !slices.ContainsFunc(choices, func(choice string) bool { return has(tools, choice) }) {
			return strings.Join(choices, " or ")
		}
	}
	return ""
}

// has reports whether one of the tools is what a need names.
func has(tools []api.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t api.Tool) bool { return t.Name == name && t.Present })
}

// Language is one language.
type Language struct {
	Name  api.Language
	Title string // as people write it
	// Others are other names and endings for it, in lower case.
	Others []string
	// Main is the file in which a program of one file lies.
	Main string
	// Compile makes a program of the files; empty where none is made. Run runs it. Both
	// are for bash, in the directory of the files.
	Compile, Run string
	// Needs are the programs that Compile and Run start. Of those that are joined by "|"
	// one is enough.
	Needs []string
	// Package is how a system brings what Needs lists, in Debian's name.
	Package string
	// Registry is the egress preset of the language's package registry; empty for none.
	Registry string
	// Comment begins a comment that ends with its line.
	Comment string
}

// quiet keeps Go away from the network and from what is not the program's.
const quiet = "CGO_ENABLED=0 GOTOOLCHAIN=local GOPROXY=off GO111MODULE=auto GOFLAGS=-buildvcs=false "

// table has the languages in the order in which they are listed to people.
var table = []Language{
	{Name: api.Python, Title: "Python", Others: []string{"python3", "py"}, Main: "main.py",
		Run: "python3 main.py", Needs: []string{"python3"}, Package: "python3", Registry: "pip", Comment: "#"},
	{Name: api.JavaScript, Title: "JavaScript", Others: []string{"js", "node", "nodejs", "node.js", "mjs", "cjs", "java script", "ecmascript"}, Main: "main.js",
		Run: "node main.js", Needs: []string{"node"}, Package: "nodejs", Registry: "npm", Comment: "//"},
	{Name: api.TypeScript, Title: "TypeScript", Others: []string{"ts"}, Main: "main.ts",
		// Types are taken out and not checked: by Node itself from 22.18 on, else by tsc.
		Compile: "if ! node -e 'process.exit(process.features.typescript ? 0 : 1)'; then " +
			"command -v tsc >/dev/null || { echo 'TypeScript needs Node 22.18 or newer, or tsc'$'\\n''tsc: command not found' >&2; exit 127; }; " +
			"tsc --target es2020 --module commonjs --skipLibCheck --outDir compiled main.ts; test -e compiled/main.js; fi",
		Run:   "if test -e compiled/main.js; then node compiled/main.js; else node main.ts; fi",
		Needs: []string{"node"}, Package: "nodejs node-typescript", Registry: "npm", Comment: "//"},
	{Name: api.Go, Title: "Go", Others: []string{"golang"}, Main: "main.go",
		Compile: quiet + "go build -o program *.go", Run: "./program", Needs: []string{"go"}, Package: "golang-go", Registry: "go", Comment: "//"},
	{Name: api.Rust, Title: "Rust", Others: []string{"rs"}, Main: "main.rs",
		Compile: "rustc --edition 2021 -o program main.rs", Run: "./program", Needs: []string{"rustc", "gcc|cc"}, Package: "rustc gcc", Comment: "//"},
	{Name: api.Java, Title: "Java", Main: "Main.java",
		// The launcher of one file takes any name of its class.
		Run: "java Main.java", Needs: []string{"java", "javac"}, Package: "default-jdk-headless", Comment: "//"},
	{Name: api.C, Title: "C", Main: "main.c",
		Compile: "gcc -O1 -Wall -o program *.c -lm", Run: "./program", Needs: []string{"gcc"}, Package: "gcc libc6-dev", Comment: "//"},
	{Name: api.CPlusPlus, Title: "C++", Others: []string{"cpp", "cxx", "cc"}, Main: "main.cpp",
		Compile: "g++ -O1 -Wall -o program *.cpp", Run: "./program", Needs: []string{"g++"}, Package: "g++", Comment: "//"},
	{Name: api.Bash, Title: "Bash", Others: []string{"sh", "shell", "shell script"}, Main: "main.sh",
		Run: "bash main.sh", Needs: []string{"bash"}, Package: "bash", Comment: "#"},
	{Name: api.Ruby, Title: "Ruby", Others: []string{"rb"}, Main: "main.rb",
		Run: "ruby main.rb", Needs: []string{"ruby"}, Package: "ruby", Comment: "#"},
	{Name: api.PHP, Title: "PHP", Main: "main.php",
		Run: "php main.php", Needs: []string{"php"}, Package: "php-cli", Comment: "//"},
	{Name: api.Perl, Title: "Perl", Others: []string{"pl"}, Main: "main.pl",
		Run: "perl main.pl", Needs: []string{"perl"}, Package: "perl", Comment: "#"},
}
