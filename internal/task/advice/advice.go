package advice

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/platform/inventory"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/repository/toolchain"
)

// hostTemplate is the name of the template of this machine's toolchains.
const hostTemplate = "host"

// Adviser tells a person how to install what a program did not find in its sandbox.
type Adviser struct {
	// Tools lists the programs that the sandboxes of a request have.
	Tools func(context.Context, api.CreateSandbox) ([]api.Tool, error)
	// Debian is true if this machine uses Debian's packages.
	Debian bool
	// Provided returns the directory of a package of that name that the repository of a task has itself, "" if it has none.
	// Nil if repositories cannot be read.
	Provided func(ctx context.Context, t api.Task, l api.Language, name string) string
	// Needs returns the toolchains that the repository of a task names, and Toolchains lists those of this machine outside /usr. Nil if
	// neither is known.
	Needs      func(context.Context, api.Task) toolchain.Needs
	Toolchains func() []api.Toolchain
}

// Advise returns what a task that was not verified lacked in its sandbox, what would allow its download, and what to
// install where; "" if it lacked nothing. It starts no sandbox.
func (a Adviser) Advise(ctx context.Context, t api.Task) string {
	l, ok := lackOf(t)
	if !ok {
		return ""
	}
	if t.Repo != nil {
		if text := a.notInstalled(ctx, t, l); text != "" {
			return text
		}
		if text := a.own(ctx, t, l); text != "" {
			return text
		}
	}
	text := a.install(ctx, t.Create.Sandbox, l)
	if t.Repo != nil && l.Language == "" && l.Installer == "" && a.Needs != nil && a.Toolchains != nil {
		if more := a.Needs(ctx, t).Missing(l.Name, a.Toolchains()); more != "" {
			return text + " Otherwise: " + more + "."
		}
		return text + " In a checkout, hortus doctor --repo . lists all that the repository needs."
	}
	return text
}

// notInstalled says what the setup of the repository did not install, if that may be why something is missing; "" otherwise.
func (a Adviser) notInstalled(ctx context.Context, t api.Task, l observe.Lack) string {
	var why []string
	program, failed := "", false
	for _, n := range t.Repo.NotInstalled {
		if l.Language == "" || n.Language == "" || registryOf(l.Language) == registryOf(n.Language) {
			why, program, failed = append(why, strings.TrimRight(n.Why, ". \n")), cmp.Or(program, n.Program), failed || n.Language != ""
		}
	}
	if len(why) == 0 {
		return ""
	}
	more := ""
	if n := len(why) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	text := fmt.Sprintf("The gate lacks %s, and the setup of the repository is not complete%s: %s.", title(l), more, why[0])
	if program != "" {
		return text + " " + a.install(ctx, t.Create.Sandbox, observe.Lack{Name: program, Told: true})
	}
	if how := a.command(ctx, t.Create.Sandbox, l); how != "" && failed {
		return text + fmt.Sprintf(" Repair that first, or install the library on the daemon's machine: %s.", how)
	}
	return text + " Repair that first, or describe the setup in .hortus/setup.yaml."
}

// command installs a library; empty if it is not known how.
func (a Adviser) command(ctx context.Context, req api.CreateSandbox, l observe.Lack) string {
	if l.Language == "" || l.Name == "" {
		return ""
	}
	at := a.interpreter(ctx, req, l.Language)
	how := inventory.InstallLibrary(l.Language, l.Name, at, debianNode())
	switch {
	case strings.HasPrefix(how, "apt-get") && !a.Debian:
		return ""
	case how != "" || l.Language != api.Python:
		return how
	case a.Debian && strings.HasPrefix(at, "/usr/bin/"):
		return "apt-get install " + librarySearch(l) + ", if Debian has it by that name"
	}
	return "python3 -m pip install " + l.Name
}

// own says what to do about a package of the repository itself, which no registry has to have.
func (a Adviser) own(ctx context.Context, t api.Task, l observe.Lack) string {
	if a.Provided == nil || l.Language == "" || l.Name == "" {
		return ""
	}
	dir := a.Provided(ctx, t, l.Language, l.Name)
	if dir == "" {
		return ""
	}
	return fmt.Sprintf("The gate did not find %s, which is a package of the repository itself (%s). What it needs before the gate, such as a build, a link or a variable with its directory, belongs into the gate's command (--verify) or into .hortus/setup.yaml.", l.Name, dir)
}

// title names what is missing.
func title(l observe.Lack) string {
	switch {
	case l.Installer != "":
		return "packages of " + l.Installer
	case l.Language == "":
		return "the command " + l.Name
	}
	if known, ok := language.Of(l.Language); ok {
		return "the " + known.Title + " library " + l.Name
	}
	return "the library " + l.Name
}

// registryOf names the registry of a language's packages, or the language if it has none.
func registryOf(l api.Language) string {
	if known, ok := language.Of(l); ok && known.Registry != "" {
		return known.Registry
	}
	return string(l)
}

// install says how to install what is missing.
func (a Adviser) install(ctx context.Context, req api.CreateSandbox, l observe.Lack) string {
	offline := allow(l)
	after := "New sandboxes then have it; run hortus doctor to list what they have."
	if name := req.Template; name != "" && name != hostTemplate {
		after = fmt.Sprintf("Then create the template %q again; run hortus doctor to list what the host template has.", name)
	}
	if l.Installer == "go" {
		return fmt.Sprintf("go could not download modules in the sandbox. %s Vendored modules need no download: run go mod vendor and commit the directory vendor; run hortus doctor to list what sandboxes have.", offline)
	}
	if l.Installer != "" {
		return fmt.Sprintf("%s could not install packages in the sandbox. %s %s On the daemon's machine, install what the program needs%s. %s",
			l.Installer, offline, managed(l.Installer), a.example(l.Installer), after)
	}
	what, install, search := fmt.Sprintf("command %s", l.Name), "", l.Name
	if l.Language == "" {
		install = inventory.InstallTool(l.Name)
	} else {
		title := string(l.Language)
		if known, ok := language.Of(l.Language); ok {
			title = known.Title
		}
		what = fmt.Sprintf("%s library %s", title, l.Name)
		install = inventory.InstallLibrary(l.Language, l.Name, a.interpreter(ctx, req, l.Language), debianNode())
		search = librarySearch(l)
	}
	if !a.Debian && strings.HasPrefix(install, "apt-get") {
		install = ""
	}
	switch {
	case install != "":
		return fmt.Sprintf("The sandbox has no %s. %s Run on the daemon's machine: %s. %s", what, offline, install, after)
	case a.Debian:
		return fmt.Sprintf("The sandbox has no %s. %s Find its package on the daemon's machine with apt-cache search %s and install it, "+
			"or add it to the files of the program or repository. %s", what, offline, search, after)
	}
	return fmt.Sprintf("The sandbox has no %s. %s Install it below /usr on the daemon's machine, or add it to the files of the program or repository. %s", what, offline, after)
}

// allow returns what allows the download of what is missing.
func allow(l observe.Lack) string {
	const denied = "Sandboxes connect only to what is allowed"
	if l.Told {
		return denied + "."
	}
	preset := l.Installer
	if preset == "mvn" {
		preset = "repo.maven.apache.org"
	}
	if known, ok := language.Of(l.Language); ok {
		preset = known.Registry
	}
	if preset == "" {
		return denied + " (--egress)."
	}
	return fmt.Sprintf("%s: --egress %s allows a download, and --setup-egress %s one by the install command of a program.", denied, preset, preset)
}

// librarySearch returns the search term for a library in the list of packages.
func librarySearch(l observe.Lack) string {
	name := strings.ToLower(strings.Trim(strings.NewReplacer("_", "-", "/", "-", "@", "").Replace(l.Name), "-."))
	switch l.Language {
	case api.Python:
		return "python3-" + name
	case api.JavaScript, api.TypeScript:
		return "node-" + name
	case api.Ruby:
		return "ruby-" + name
	}
	return name
}

// managed corrects the advice that an installer printed in the sandbox.
func managed(installer string) string {
	if installer == "pip" {
		return `pip's advice (PEP 668, "externally-managed-environment", a virtual environment) does not help in a sandbox.`
	}
	return "Dependencies included in the repository or program need no download."
}

// example returns the command that installs packages of an installer's kind.
func (a Adviser) example(installer string) string {
	switch {
	case a.Debian && installer == "pip":
		return " (apt-get install python3-NAME)"
	case a.Debian && installer == "npm":
		return " (apt-get install node-NAME)"
	}
	return ""
}

// interpreter returns the path of a language's interpreter in the sandboxes of a request, or
// "" if it is not known.
func (a Adviser) interpreter(ctx context.Context, req api.CreateSandbox, name api.Language) string {
	l, ok := language.Of(name)
	if !ok {
		return ""
	}
	list, err := a.Tools(ctx, req)
	if err != nil {
		return "" // the advice is general then
	}
	i := slices.IndexFunc(list, func(t api.Tool) bool { return t.Present && slices.Contains(l.Needs, t.Name) })
	if i < 0 {
		return ""
	}
	return list[i].Path
}

// debianNode reports whether Node finds the libraries of Debian's packages.
func debianNode() bool {
	_, err := os.Stat("/usr/share/nodejs")
	return err == nil
}

// lackOf finds what a task failed for want of.
func lackOf(t api.Task) (observe.Lack, bool) {
	if r := t.Repo; r != nil {
		return lackOfGate(*r)
	}
	var results []api.ExecutionResult
	var languages []api.Language
	for _, a := range slices.Backward(t.Attempts) {
		if a.Result != nil {
			results, languages = append(results, *a.Result), append(languages, a.Artifact.Language)
		}
	}
	if len(results) == 0 || results[0].OK {
		return observe.Lack{}, false
	}
	switch results[0].Category {
	case api.CategoryImport, api.CategoryCommand, api.CategoryInstall, api.CategoryNetwork:
	default:
		// A program may hide its own failure behind another: npm and pip end with 1.
		l, ok := observe.Lacking(results[0].Stderr)
		return l, ok && l.Installer != ""
	}
	if observe.Absent(results[0].Detail) {
		return observe.Lack{}, false // its name is wrong, and that was said
	}
	// What could not be installed is what an earlier attempt missed.
	for i, res := range results {
		switch {
		case res.Missing != "" && res.Category == api.CategoryCommand:
			return observe.Lack{Name: res.Missing}, true
		case res.Missing != "":
			return observe.Lack{Language: languages[i], Name: res.Missing, Told: results[0].Phase == api.PhaseInstall && results[0].Detail != ""}, true
		}
		if res.Phase != api.PhaseInstall {
			break
		}
	}
	return observe.Lacking(results[0].Stderr)
}

// lackOfGate finds it in what the last gate printed, of a result or before the work.
func lackOfGate(r api.RepoResult) (observe.Lack, bool) {
	g := r.Before
	for _, x := range slices.Backward(r.Rounds) {
		if x.Gate != nil {
			g = x.Gate
			break
		}
	}
	if g == nil || g.Passed {
		return observe.Lack{}, false
	}
	return observe.Lacking(g.Output)
}
