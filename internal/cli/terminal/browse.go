package terminal

import (
	"os/exec"

	"hortus.dev/internal/cli/app"
)

// HasDisplay reports whether a browser can show something to the person.
func HasDisplay(a *app.App) bool { return a.Getenv("DISPLAY")+a.Getenv("WAYLAND_DISPLAY") != "" }

// Browse opens a link in the person's browser, or says that the person must.
func Browse(a *app.App, link string) {
	// It returns when it has told a browser, or is that browser: it is not waited for.
	if err := exec.Command("xdg-open", link).Start(); err != nil {
		a.Note("no browser could be opened (%v): open the link yourself", err)
	}
}
