package terminal

import (
	"fmt"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// ReadHidden reads one line without showing it, after a prompt on stderr. Ctrl-C restores the
// terminal and ends the process.
func (t *Terminal) ReadHidden(a *app.App, prompt string) ([]byte, error) {
	fd := int(t.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "read the terminal: %w", err)
	}
	in := CatchInterrupts(a)
	defer in.Close()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if in.First(ended) {
			_ = term.Restore(fd, before)
			fmt.Fprintln(a.Env.Stderr)
			in.exit(130)
		}
	}()
	fmt.Fprint(a.Env.Stderr, prompt)
	line, err := term.ReadPassword(fd)
	close(ended)
	<-watched
	fmt.Fprintln(a.Env.Stderr)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "read the terminal: %w", err)
	}
	return line, nil
}
