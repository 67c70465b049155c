package image

import (
	"strings"
	"testing"
	"time"
)

// FuzzAnswer reads what a keeper answers, which sits beside the kernel that
// untrusted code runs on.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"ok":true,"going":true,"pausedUs":1200}`, `{"ok":false,"error":"no space left","going":true}`,
		`{"ok":true,"held":true,"pausedUs":1200}`,
		`{"pausedUs":-1}`, `{"pausedUs":9223372036854775807}`, `{"pausedUs":1e99}`, `{"error":"\u001b[2J\n` + strings.Repeat("x", 3000) + `"}`,
		``, `null`, `[]`, `{"ok":"yes"}`, "\x00\xff", `{"ok":true}{"ok":false}`, strings.Repeat("[", 4096),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b)
		if err != nil {
			if a.OK || a.Error != "" || len(err.Error()) > 300 {
				t.Errorf("%+v beside %v", a, err)
			}
			return
		}
		if d := time.Duration(a.PausedUS) * time.Microsecond; d < 0 || d > 24*time.Hour {
			t.Errorf("a guest stood still for %v", d)
		}
		if len(a.Error) > 300 || strings.ContainsFunc(a.Error, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("a text for people: %q", a.Error)
		}
	})
}
