package session

import (
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
)

// keyLetters are what a key is made of.
const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-"

// CheckKey refuses what cannot be the key of a session: KindInvalid.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey || strings.Trim(key, keyLetters) != "" || strings.ContainsAny(key[:1], ".-") {
		return api.Errorf(api.KindInvalid, "%.40q is not a valid key of a session", key).
			WithHint(`use 1 to %d letters, digits, ".", "_", ":", "@" and "-", not beginning with "." or "-"`, MaxKey)
	}
	return nil
}

// CheckText refuses what cannot be said: KindInvalid.
func CheckText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return api.Errorf(api.KindInvalid, "the message is empty")
	case len(text) > MaxText || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return api.Errorf(api.KindInvalid, "the message is not UTF-8 text of at most %d bytes", MaxText)
	}
	return nil
}

// Check refuses a message that makes no sense: KindInvalid.
func (m Message) Check() error {
	if err := CheckText(m.Text); err != nil {
		return err
	}
	switch m.Mode {
	case "", Queue, Interrupt:
	default:
		return api.Errorf(api.KindInvalid, "unknown mode %.40q: use %s or %s", m.Mode, Queue, Interrupt)
	}
	if m.Create != nil {
		return m.Create.Check()
	}
	return nil
}

// Check refuses settings that make no sense: KindInvalid. What the sandbox, the repository and the agent would refuse is checked
// where they are.
func (s Settings) Check() error {
	sandbox := s.Sandbox
	switch {
	case s.Repository == "" && s.Ref != "":
		return api.Errorf(api.KindInvalid, "ref is for a repository, and none is named")
	case s.Repository == "" && (s.Push || s.MergeRequest):
		return api.Errorf(api.KindInvalid, "a delivery is for a repository, and none is named")
	case s.Repository == "" && s.NoSetup:
		return api.Errorf(api.KindInvalid, "noSetup is for a repository, and none is named")
	case len(s.Repository) > 4<<10 || len(s.Ref) > 1<<10:
		return api.Errorf(api.KindInvalid, "the repository or the ref is too long")
	case len(sandbox.Env) > 0:
		return api.Errorf(api.KindInvalid, "sandbox.env cannot be used with a session").WithHint("use secrets, or write the values to a file in the workspace")
	case sandbox.TTLMS != 0 || sandbox.OnExpiry != "" || sandbox.AutoResume:
		return api.Errorf(api.KindInvalid, "sandbox.ttlMs, onExpiry and autoResume cannot be used with a session").WithHint("set warmMs, pausedMs and ttlMs of the session")
	case sandbox.Workspace != "" || sandbox.Task != "":
		return api.Errorf(api.KindInvalid, "sandbox.workspace and sandbox.task cannot be used with a session: it has its own")
	case s.WarmMS < -1 || s.WarmMS > MaxWarm.Milliseconds() || s.PausedMS < -1 || s.PausedMS > MaxWarm.Milliseconds():
		return api.Errorf(api.KindInvalid, "warmMs and pausedMs must be between 0 (the default), -1 (not at all) and %d", MaxWarm.Milliseconds())
	case s.PausedMS > 0 && s.WarmMS == -1:
		return api.Errorf(api.KindInvalid, "pausedMs is set, but warmMs says that no sandbox stays")
	case s.TTLMS < 0 || s.TTLMS > MaxTTL.Milliseconds():
		return api.Errorf(api.KindInvalid, "ttlMs of %d is out of range; the maximum is %d", s.TTLMS, MaxTTL.Milliseconds())
	case (s.Author.Name == "") != (s.Author.Email == ""):
		return api.Errorf(api.KindInvalid, "an author needs a name and an e-mail address")
	}
	return sandbox.CheckBounds()
}

// Warm is how long the sandbox stays after a turn; 0 for not at all.
func (s Settings) Warm() time.Duration { return window(s.WarmMS, DefaultWarm) }

// Paused is how long it is stopped in memory after that; 0 for not at all.
func (s Settings) Paused() time.Duration { return window(s.PausedMS, DefaultPaused) }

// TTL is the time without a message after which the session is closed.
func (s Settings) TTL() time.Duration { return window(s.TTLMS, DefaultTTL) }

func window(ms int64, usual time.Duration) time.Duration {
	switch {
	case ms == 0:
		return usual
	case ms < 0:
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
