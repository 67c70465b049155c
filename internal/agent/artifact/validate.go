package artifact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// Bounds of an artifact and of a plan.
const (
	MaxBytes      = 1 << 20 // all files together
	MaxFiles      = 64
	MaxPath       = 255
	MaxDepth      = 16
	MaxCommand    = 16 << 10
	MaxText       = 16 << 10 // a note, a task, a cause
	MaxParameters = 64
	MaxExpect     = 64
	MaxChecks     = 8
	MaxTimeout    = api.MaxTTL
)

// Validate checks every bound of an artifact. The error is of KindInvalid and
// names the field, in words that a model can act on.
func Validate(a api.CodeArtifact) error {
	if err := known(a.Language); err != nil {
		return err
	}
	if len(a.Files) == 0 {
		return api.Errorf(api.KindInvalid, "files is empty; the artifact needs at least one file")
	}
	if len(a.Files) > MaxFiles {
		return api.Errorf(api.KindInvalid, "files has %d entries; the maximum is %d", len(a.Files), MaxFiles)
	}
	seen := make(map[string]bool, len(a.Files))
	total := 0
	for _, f := range a.Files {
		if f.Base64 != "" {
			return api.Errorf(api.KindInvalid, "file %.64q has base64; a program's files are text, in content", f.Path)
		}
		if err := Path(f.Path); err != nil {
			return err
		}
		if seen[f.Path] {
			return api.Errorf(api.KindInvalid, "file %q is listed twice", f.Path)
		}
		seen[f.Path] = true
		total += len(f.Content)
	}
	for path := range seen {
		for dir := path; strings.Contains(dir, "/"); {
			dir = dir[:strings.LastIndexByte(dir, '/')]
			if seen[dir] {
				return api.Errorf(api.KindInvalid, "%q is both a file and the directory of %q", dir, path)
			}
		}
	}
	if total > MaxBytes {
		return api.Errorf(api.KindInvalid, "the files have %d bytes in total; the maximum is %d", total, MaxBytes)
	}
	if strings.TrimSpace(a.Run) == "" {
		return api.Errorf(api.KindInvalid, "run is empty; set it to the command that runs the program")
	}
	for _, c := range []struct{ name, text string }{{"run", a.Run}, {"compile", a.Compile}, {"install", a.Install}} {
		if err := text(c.name, c.text, MaxCommand); err != nil {
			return err
		}
	}
	if err := text("note", a.Note, MaxText); err != nil {
		return err
	}
	if err := shell(a.Shell, true); err != nil {
		return err
	}
	if err := output(a.Output, true, a.Expect, "expect"); err != nil {
		return err
	}
	for _, t := range []struct {
		name string
		ms   int64
	}{{"installTimeoutMs", a.InstallTimeoutMS}, {"runTimeoutMs", a.RunTimeoutMS}} {
		if t.ms < 0 || t.ms > MaxTimeout.Milliseconds() {
			return api.Errorf(api.KindInvalid, "%s is %d; it must be between 0 and %d", t.name, t.ms, MaxTimeout.Milliseconds())
		}
	}
	return nil
}

// Within refuses an artifact whose own timeouts are longer than those that a
// person allowed. A model may shorten a pass; it may not lengthen it.
func Within(a api.CodeArtifact, install, run time.Duration) error {
	if a.InstallTimeoutMS > install.Milliseconds() {
		return api.Errorf(api.KindInvalid, "installTimeoutMs is %d; the maximum for this task is %d", a.InstallTimeoutMS, install.Milliseconds())
	}
	if a.RunTimeoutMS > run.Milliseconds() {
		return api.Errorf(api.KindInvalid, "runTimeoutMs is %d; the maximum for this task is %d", a.RunTimeoutMS, run.Milliseconds())
	}
	return nil
}

// ValidatePlan checks every bound of a plan.
func ValidatePlan(p api.ExecutionPlan) error {
	if err := known(p.Language); err != nil {
		return err
	}
	if strings.TrimSpace(p.Task) == "" {
		return api.Errorf(api.KindInvalid, "task is empty; set it to what the program must do")
	}
	if err := text("task", p.Task, MaxText); err != nil {
		return err
	}
	if err := shell(p.Shell, false); err != nil {
		return err
	}
	if len(p.Dependencies) > MaxParameters || len(p.Parameters) > MaxParameters {
		return api.Errorf(api.KindInvalid, "dependencies and parameters: the maximum is %d entries each", MaxParameters)
	}
	for _, d := range p.Dependencies {
		if err := text("dependencies", d, 256); err != nil {
			return err
		}
	}
	for _, c := range []struct{ name, text string }{{"compile", p.Compile}, {"run", p.Run}} {
		if err := text(c.name, c.text, MaxCommand); err != nil {
			return err
		}
	}
	if len(p.Checks) > MaxChecks {
		return api.Errorf(api.KindInvalid, "checks has %d entries; the maximum is %d", len(p.Checks), MaxChecks)
	}
	for _, c := range p.Checks {
		if strings.TrimSpace(c.Name) == "" || strings.TrimSpace(c.Command) == "" {
			return api.Errorf(api.KindInvalid, "a check needs a name and a command")
		}
		if err := text("the name of a check", c.Name, 256); err != nil {
			return err
		}
		if err := text("the command of a check", c.Command, MaxCommand); err != nil {
			return err
		}
	}
	size := 0
	for k, v := range p.Parameters {
		if err := text("parameters", k, 64); err != nil {
			return err
		}
		if strings.ContainsRune(v, 0) || !utf8.ValidString(v) {
			return api.Errorf(api.KindInvalid, "parameter %.64q is not plain text", k)
		}
		size += len(v)
	}
	if size > 64<<10 {
		return api.Errorf(api.KindInvalid, "the parameters have %d bytes; the maximum is %d", size, 64<<10)
	}
	return output(p.Output, false, p.Files, "files")
}

// Path checks one path of an artifact: relative, slash-separated, without ".",
// ".." or empty elements, without NUL and control characters.
func Path(p string) error {
	bad := func(why string) error {
		return api.Errorf(api.KindInvalid, "path %.64q %s", p, why).
			WithHint("Use a relative path below the workspace, such as main.py or data/input.csv.")
	}
	switch {
	case p == "":
		return bad("is empty")
	case len(p) > MaxPath:
		return bad("is too long")
	case !utf8.ValidString(p):
		return bad("is not UTF-8")
	case strings.HasPrefix(p, "/"):
		return bad("is absolute")
	case strings.ContainsRune(p, '\\'):
		return bad("has a backslash")
	case strings.Count(p, "/") >= MaxDepth:
		return bad("is too deep")
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f {
			return bad("has a control character")
		}
	}
	for element := range strings.SplitSeq(p, "/") {
		switch element {
		case "":
			return bad("has an empty element")
		case ".", "..":
			return bad("has the element " + element)
		}
	}
	return nil
}

func known(l api.Language) error {
	if _, ok := language.Of(l); !ok {
		return api.Errorf(api.KindInvalid, "unknown language %.64q", string(l)).
			WithHint("Use one of %s.", strings.Join(language.Names(), ", "))
	}
	return nil
}

func shell(s string, emptyOK bool) error {
	if s == "bash" || s == "sh" || s == "" && emptyOK {
		return nil
	}
	return api.Errorf(api.KindInvalid, "unknown shell %.64q; use bash or sh", s)
}

func output(kind api.OutputKind, emptyOK bool, files []string, field string) error {
	switch kind {
	case api.OutputText, api.OutputJSON, api.OutputNone:
	case api.OutputFile:
		if len(files) == 0 {
			return api.Errorf(api.KindInvalid, "output is %q but %s does not name a file", kind, field)
		}
	case "":
		if !emptyOK {
			return api.Errorf(api.KindInvalid, "output is empty; use text, json, file or none")
		}
	default:
		return api.Errorf(api.KindInvalid, "unknown output %.64q; use text, json, file or none", string(kind))
	}
	if len(files) > MaxExpect {
		return api.Errorf(api.KindInvalid, "%s has %d entries; the maximum is %d", field, len(files), MaxExpect)
	}
	for _, f := range files {
		if err := Path(f); err != nil {
			return err
		}
	}
	return nil
}

func text(field, s string, max int) error {
	if len(s) > max {
		return api.Errorf(api.KindInvalid, "%s has %d bytes; the maximum is %d", field, len(s), max)
	}
	if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return api.Errorf(api.KindInvalid, "%s is not plain text", field)
	}
	return nil
}

// Key is equal for two artifacts that would run the same: same files apart from
// white space at line ends and the order of the list, same commands, timeouts
// and expectations. The note does not count.
func Key(a api.CodeArtifact) string {
	n := a
	n.Note = ""
	n.Run = strings.TrimSpace(a.Run)
	n.Install, n.Compile = strings.TrimSpace(a.Install), strings.TrimSpace(a.Compile)
	n.Shell = cmp.Or(n.Shell, "bash")
	n.Output = cmp.Or(n.Output, api.OutputNone)
	n.Expect = slices.Sorted(slices.Values(a.Expect))
	n.Files = slices.Clone(a.Files)
	for i := range n.Files {
		n.Files[i].Content = trimLines(n.Files[i].Content)
	}
	slices.SortFunc(n.Files, func(x, y api.File) int { return strings.Compare(x.Path, y.Path) })
	b, err := json.Marshal(n)
	if err != nil {
		// Only values that JSON cannot hold fail, and an artifact has none.
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
