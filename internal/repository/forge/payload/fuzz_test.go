package payload_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/payload"
	"hortus.dev/test/forgeserver"
)

var at = time.Date(2026, 11, 1, 2, 3, 4, 0, time.UTC)

// events are one of each form.
var events = []forgeserver.Event{
	{Repository: "a/b", Issue: 7, Title: "T", Body: "B", Author: "ann", Sender: "mae", Comment: 41, Text: "/hortus x", At: at},
	{Repository: "a/b", Issue: 7, Title: "T", Body: "B", Author: "ann", Sender: "mae", Label: "hortus", At: at},
	{Repository: "a/b", Issue: 7, Author: "ann", Sender: "mae", Label: "hortus", Old: true, At: at},
	{Repository: "a/b", Issue: 7, Author: "ann", Sender: "mae", Removed: "hortus", At: at},
	{Repository: "a/b", Issue: 7, Author: "ann", Sender: "mae", Comment: 41, Pull: true, Action: "edited", Confidential: true, At: at},
}

// TestForms: all forges say the same in their own forms.
func TestForms(t *testing.T) {
	for _, kind := range forge.Kinds {
		for i, e := range events {
			v := e.Delivery(kind, payload.NewSecret(), false)
			got, err := payload.Parse(kind, v.Header, v.Body)
			if err != nil {
				t.Errorf("%s %d: %v", kind, i, err)
				continue
			}
			switch {
			case i == 0 && (got.Comment != 41 || got.Text != "/hortus x" || got.Cause("hortus") != "comment 41"),
				i == 1 && (!got.Has("hortus") || got.Comment != 0 || got.Cause("hortus") != "issue 7 label hortus at 2026-11-01T02:03:04Z" || got.Title != "T" || got.Body != "B"),
				i < 2 && (got.Repository != "a/b" || got.Issue != 7 || got.Sender.Login != "mae" || got.Sender.ID <= 0 || !got.At.Equal(at)),
				i == 2 && kind == forge.Gitea && got.Cause("hortus") != "issue 7 label hortus",
				i == 3 && got.Has("hortus"),
				i == 4 && got.Ignored == "":
				t.Errorf("%s %d: %+v", kind, i, got)
			}
		}
	}
	// The control for the names of headers: an event of another kind is ignored, and a ping too.
	for _, name := range []string{"", "ping", "push"} {
		v := events[0].Delivery(forge.GitHub, "s", false)
		v.Header.Set("X-GitHub-Event", name)
		if got, err := payload.Parse(forge.GitHub, v.Header, v.Body); err != nil || got.Ignored == "" {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// FuzzParse: whatever a body is, Parse returns an event that is whole, or a reason, or an error of a kind.
func FuzzParse(f *testing.F) {
	for i, kind := range forge.Kinds {
		for _, e := range events {
			v := e.Delivery(kind, "secret", false)
			name := v.Header.Get("X-GitHub-Event") + v.Header.Get("X-Gitea-Event") + v.Header.Get("X-Gitlab-Event")
			f.Add(i, name, v.Body)
		}
	}
	f.Add(0, "issues", []byte(`{"action":"labeled","issue":{"number":-1,"pull_request":[]},"sender":{"id":1e400}}`))
	f.Add(1, "Note Hook", []byte(`{"object_attributes":{"created_at":7}}`))
	f.Fuzz(func(t *testing.T, n int, name string, body []byte) {
		kind := forge.Kinds[uint(n)%3]
		h := http.Header{"Content-Type": {"application/json"}}
		for _, header := range []string{"X-Github-Event", "X-Gitea-Event", "X-Gitlab-Event"} {
			h[header] = []string{name}
		}
		e, err := payload.Parse(kind, h, body)
		switch {
		case err != nil && api.KindOf(err) != api.KindInvalid:
			t.Errorf("%v", err)
		case err == nil && e.Ignored == "" && (e.Repository == "" || e.Issue <= 0 || e.Sender.ID <= 0 || e.Sender.Login == "" || e.At.IsZero()):
			t.Errorf("%+v", e)
		}
	})
}

// FuzzVerify: no header but the right one verifies a body.
func FuzzVerify(f *testing.F) {
	secret := payload.NewSecret()
	f.Add(0, "sha256=00", []byte("{}"))
	f.Add(1, "whsec_", []byte("{}"))
	f.Add(2, "", []byte(""))
	f.Fuzz(func(t *testing.T, n int, value string, body []byte) {
		h := http.Header{}
		for _, name := range []string{"X-Hub-Signature-256", "X-Gitea-Signature", "X-Gitlab-Token", "Webhook-Signature", "Webhook-Id", "Webhook-Timestamp"} {
			h.Set(name, value)
		}
		if kind := forge.Kinds[uint(n)%3]; payload.Verify(kind, secret, h, body, at) || payload.Verify(kind, "", h, body, at) {
			t.Errorf("%s: %q verifies", kind, value)
		}
	})
}

// FuzzVisible: hidden text does not come through, whatever is around it.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a", "```\n", "<!-", "<!", "-->", "[x]: y", "<a b='", "![", "](x \""} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "HIDDEN") || strings.Contains(before, "<!--") || strings.HasSuffix(before, "<!-") || strings.HasSuffix(before, "<!") || strings.HasSuffix(before, "<") {
			return // it would begin or end the comment
		}
		for _, got := range []string{forge.Visible(before + "<!-- HIDDEN -->" + after), forge.Plain(before + "<!-- HIDDEN " + after)} {
			if strings.Contains(got, "HIDDEN") {
				t.Errorf("%q", got)
			}
		}
	})
}
