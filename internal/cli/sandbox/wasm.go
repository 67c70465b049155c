package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
)

// programs are the commands that run a file of the host, by the end of its name.
var programs = map[string][]string{".js": {"qjs", "--std"}, ".mjs": {"qjs", "--std", "-m"}, ".py": {"python3"}, ".wasm": nil}

// CheckFile says why [RunFile] cannot run what a text names.
func CheckFile(text string) error {
	if _, ok := programs[filepath.Ext(text)]; !ok {
		return api.Errorf(api.KindInvalid, "hortus run --isolation wasm runs a file, and %.80q is none that it can run", text).
			WithHint("give it a file.js, file.py or file.wasm; for a request in plain language use another isolation")
	}
	info, err := os.Stat(text)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%.200s is not a regular file", text)
	}
	if err == nil && filepath.Ext(text) == ".py" {
		var source []byte
		if source, err = os.ReadFile(text); err == nil {
			return lacks(text, string(source))
		}
	}
	if err != nil {
		return api.Errorf(api.KindInvalid, "hortus run --isolation wasm: %w", err)
	}
	return nil
}

// native are packages that programs often import and that no build of Python for WASI has: they contain or need native code, sockets or
// processes.
var native = []string{"cv2", "django", "fastapi", "flask", "httpx", "matplotlib", "numpy", "pandas", "PIL", "polars", "psycopg2", "pydantic", "requests", "scipy", "seaborn",
	"sklearn", "sqlalchemy", "tensorflow", "torch", "transformers"}

// lacks refuses a Python program that imports one of them on the first level. A program can handle the error of any other import.
func lacks(name, source string) error {
	for line := range strings.Lines(source) {
		rest, ok := strings.CutPrefix(line, "import ")
		if !ok {
			if rest, ok = strings.CutPrefix(line, "from "); ok {
				rest, _, ok = strings.Cut(rest, " import ")
			}
		}
		if !ok {
			continue
		}
		for module := range strings.SplitSeq(rest, ",") {
			words := strings.FieldsFunc(module, func(r rune) bool { return unicode.IsSpace(r) || r == ';' || r == '.' || r == '#' })
			if len(words) > 0 && slices.Contains(native, words[0]) {
				return api.Errorf(api.KindUnsupported, "%.200s imports %s, and Python in wasm sandboxes has no packages with native code (capability %s)", name, words[0], api.CapPrograms).
					WithHint("hortus code --isolation container, with the file and a template or an image that has %s", words[0])
			}
		}
	}
	return nil
}

// checkPython is lacks for the code of a command.
func checkPython(args []string) error {
	if len(args) >= 3 && (args[0] == "python3" || args[0] == "python") && args[1] == "-c" {
		return lacks("the code", args[2])
	}
	return nil
}

// RunFile copies a file into a new wasm sandbox, runs it there and destroys the sandbox.
func RunFile(ctx app.Context, a *app.App, box flags.Sandbox, file string) error {
	c := &sandboxRunCmd{Sandbox: box, file: file}
	c.Command = append(slices.Clone(programs[filepath.Ext(file)]), "/workspace/"+filepath.Base(file))
	return c.Run(ctx, a)
}
