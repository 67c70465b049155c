package signin

import (
	"testing"
	"time"

	"hortus.dev/api"
)

// TestKeyExpires: a session ends with the key that it began with. The control is a session of a key without an end.
func TestKeyExpires(t *testing.T) {
	d := newDesk(t, nil)
	lasting := d.signIn()
	d.expires = d.now.Add(time.Hour)
	resp, s := d.serve(request("POST", `{"key":"`+secret+`"}`))
	if !s.ExpiresAt.Equal(d.expires) {
		t.Errorf("the session ends at %v, the key at %v", s.ExpiresAt, d.expires)
	}
	page := []string{"Cookie", resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value, Header, s.Page}
	d.now = d.expires.Add(-time.Second)
	if err := d.who(request("GET", "", page...)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	d.now = d.expires
	if err := d.who(request("GET", "", page...)); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("at its end: %v", err)
	}
	d.expires = time.Time{}
	if err := d.who(request("GET", "", lasting...)); err != nil {
		t.Errorf("a key without an end: %v", err)
	}
}
