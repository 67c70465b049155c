package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
	"hortus.dev/internal/platform/inventory"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/storage/image"
)

// adviser says how sandboxes get what a program did not find in them.
type adviser struct {
	// present lists the programs that the sandboxes of a request have.
	present func(context.Context, api.CreateSandbox) ([]api.Tool, error)
	// debian says that this machine's packages are Debian's.
	debian bool
}

// advise says it for a person: what is missing, why it cannot be downloaded in the sandbox,
// and what to install where. It asks no sandbox.
func (a adviser) advise(ctx context.Context, req api.CreateSandbox, l observe.Lack) string {
	const offline = "Sandboxes have no network of their own, so nothing can be downloaded there."
	after := "New sandboxes then have it; hortus doctor lists what they have."
	if name := req.Template; name != "" && name != image.HostName {
		after = fmt.Sprintf("Then make the template %q again; hortus doctor lists what the host template has.", name)
	}
	if l.Installer == "go" {
		return fmt.Sprintf("go could not download modules in the sandbox. %s Modules that the repository brings with it need no download: run go mod vendor and commit the folder vendor; hortus doctor lists what sandboxes have.", offline)
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
	if !a.debian && strings.HasPrefix(install, "apt-get") {
		install = ""
	}
	switch {
	case install != "":
		return fmt.Sprintf("The sandbox has no %s. %s Run on the daemon's machine: %s. %s", what, offline, install, after)
	case a.debian:
		return fmt.Sprintf("The sandbox has no %s. %s Find its package on the daemon's machine with apt-cache search %s and install it, "+
			"or put it among the files of the program or repository. %s", what, offline, search, after)
	}
	return fmt.Sprintf("The sandbox has no %s. %s Install it below /usr on the daemon's machine, or put it among the files of the program or repository. %s", what, offline, after)
}

// librarySearch is what to search the package list for.
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

// managed says what pip's own message means here.
func managed(installer string) string {
	if installer == "pip" {
		return `pip's advice (PEP 668, "externally-managed-environment", a virtual environment) does not help there.`
	}
	return "Dependencies that the repository or program brings with it need no download."
}

// example is the command for such packages.
func (a adviser) example(installer string) string {
	switch {
	case a.debian && installer == "pip":
		return " (apt-get install python3-NAME)"
	case a.debian && installer == "npm":
		return " (apt-get install node-NAME)"
	}
	return ""
}

// interpreter gives where the interpreter of a language lies in the sandboxes of a request.
func (a adviser) interpreter(ctx context.Context, req api.CreateSandbox, name api.Language) string {
	l, ok := language.Of(name)
	if !ok {
		return ""
	}
	list, err := a.present(ctx, req)
	if err != nil {
		return "" // the advice is a general one then
	}
	i := slices.IndexFunc(list, func(t api.Tool) bool { return t.Present && slices.Contains(l.Needs, t.Name) })
	if i < 0 {
		return ""
	}
	return list[i].Path
}

// debianNode reports whether Node finds what Debian's packages bring.
func debianNode() bool {
	_, err := os.Stat("/usr/share/nodejs")
	return err == nil
}
