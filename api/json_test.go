package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestCheckJSON(t *testing.T) {
	for doc, ok := range map[string]bool{
		`{"args":["rm","a"]}`:            true,
		`["\ufffd", "` + "\ufffd" + `"]`: true, // a person may write it
		`["\ud83d\udd11"]`:               true,
		`["\\udcff"]`:                    true, // a backslash, and letters
		`["\\\ud83d\udd11"]`:             true,
		`["` + "\xff" + `"]`:             false,
		`["\udcff"]`:                     false, // Python's os.fsdecode(b"\xff")
		`["\ud83d"]`:                     false,
		`["\ud83dx"]`:                    false,
		`["\ud83d\ud83d\udd11"]`:         false,
		`["\uDCFF"]`:                     false,
		`["\\\udcff"]`:                   false,
		`["\ud83d`:                       false,
	} {
		if err := api.CheckJSON([]byte(doc)); (err == nil) != ok || err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", doc, err)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	f.Add([]byte(`"\ud83d\udd11\\udcff"`))
	f.Add([]byte("\"\xff\""))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var text string
		if json.Unmarshal(doc, &text) != nil {
			_ = api.CheckJSON(doc)
			return
		}
		// A decoder that replaces nothing has the U+FFFD that the document has.
		had := strings.Count(string(doc), "\ufffd") + strings.Count(strings.ToLower(string(doc)), `\ufffd`)
		if got := strings.Count(text, "\ufffd"); api.CheckJSON(doc) == nil && got > had {
			t.Errorf("%q became %q", doc, text)
		}
	})
}

func TestMarshalRequest(t *testing.T) {
	for arg, ok := range map[string]bool{
		"a": true, "\ufffd": true, `\ufffd`: true, `\\ufffd`: true, "<\u2028\n": true,
		"\xff": false, "a\\\xff": false, "\xed\xb3\xbf": false,
	} {
		b, err := api.MarshalRequest(api.ExecRequest{Args: []string{"rm", arg}})
		if (err == nil) != ok || err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %s, %v", arg, b, err)
		}
		var out api.ExecRequest
		if ok && (json.Unmarshal(b, &out) != nil || out.Args[1] != arg) {
			t.Errorf("%q became %q", arg, out.Args)
		}
	}
}
