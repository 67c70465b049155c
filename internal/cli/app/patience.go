package app

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// patience is how long a command that follows work waits for a daemon that does not serve: for a node that reaches its
// database again, or for the service manager to start one.
const patience = 3 * time.Minute

// codeUnknown is the exit code if it is not known what became of work that a daemon accepted.
const codeUnknown = 5

// Patient returns the context of a command that follows what a daemon accepted. Its requests wait for a daemon that does not
// serve, and say gets a line when that begins and when it ends. They do not wait for one of this machine that stops when it
// is idle, or that has just died without saying which it is: only the next command starts that.
func (a *App) Patient(ctx context.Context, c *client.Client, say func(string)) context.Context {
	if _, remote, err := a.Remote(); err == nil && !remote {
		info, err := c.Info(ctx)
		if err == nil && (info.Settings.IdleMS == nil || *info.Settings.IdleMS >= 0) || err != nil && api.RetryAfterOf(err) == 0 {
			return ctx
		}
	}
	var mu sync.Mutex
	waits := false
	return client.WithPatience(ctx, client.Patience{For: patience, Waits: func(reason error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case reason != nil && !waits:
			say("no daemon serves this now; trying again for up to " + patience.String() + ": " + reason.Error())
		case reason == nil && waits:
			say("a daemon serves this again")
		}
		waits = reason != nil
	}})
}

// Left is Unfollowed for work that a daemon left when it stopped: what continues at its next start, which the command again causes.
func Left(err error, what, again string) error {
	if api.KindOf(err) != api.KindUnavailable || api.GoneOf(err) {
		return err
	}
	return &Failure{codeUnknown, api.Errorf(api.KindUnavailable, "the daemon has stopped; %s continues at its next start", what).WithHint("%s", again)}
}

// Unfollowed turns the error of following work without a daemon into one that does not say that the work failed, and that
// names the command to follow it again. Other errors stay as they are.
func Unfollowed(err error, again string) error {
	if api.KindOf(err) != api.KindUnavailable || api.GoneOf(err) {
		return err
	}
	return &Failure{codeUnknown, api.Errorf(api.KindUnavailable, "what became of it is not known: %w", err).WithHint("%s", again)}
}
