package http

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestIdempotencyKey(t *testing.T) {
	for value, want := range map[string]string{
		"k": "k", `"k"`: "k", "8e03978e-40d5-43dd-bc93-6894a57f9324": "8e03978e-40d5-43dd-bc93-6894a57f9324", strings.Repeat("x", 255): strings.Repeat("x", 255),
		`"`: "", `""`: "", "": "", "a b": "", `a"b`: "", "a\x00": "", "é": "", strings.Repeat("x", 256): "", `\`: "",
	} {
		got, err := idempotencyKey(http.Header{headerKey: {value}})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	if _, err := idempotencyKey(http.Header{headerKey: {"a", "b"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("two keys: %v", err)
	}
	if key, err := idempotencyKey(http.Header{}); key != "" || err != nil {
		t.Errorf("no key: %q, %v", key, err)
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"`, "", "a b", "\x7f", "é", strings.Repeat("x", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := idempotencyKey(http.Header{headerKey: {s}})
		if (err == nil) == (key == "") {
			t.Fatalf("%q: %q, %v", s, key, err)
		}
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if len(key) > maxKey || strings.Trim(s, `"`) != key {
			t.Fatalf("%q became %q", s, key)
		}
	})
}

func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{"", "0", "7", "-1", "+1", "01", " 1", "9223372036854775807", "9223372036854775808", "12.exit", ".exit", "1.exit.exit", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Last-Event-Id"] = []string{s}
		n, err := seen(r)
		if n < 0 || err != nil && (n != 0 || api.KindOf(err) != api.KindInvalid) {
			t.Fatalf("%q: %d, %v", s, n, err)
		}
		if err == nil && s != "" && s != offsetID(n) {
			t.Fatalf("%q was taken for %d", s, n)
		}
		offset, exit, err := outputSeen(r)
		if offset < 0 || err != nil && api.KindOf(err) != api.KindInvalid {
			t.Fatalf("%q: %d, %v", s, offset, err)
		}
		if want := offsetID(offset); err == nil && s != "" && s != want && (!exit || s != want+exitSuffix) {
			t.Fatalf("%q was taken for %d, exit %v", s, offset, exit)
		}
	})
}

// FuzzBodies reads any body into each type that a client sends: what is taken is the
// same after a second reading, and nothing that was not known was left out.
func FuzzBodies(f *testing.F) {
	types := []any{api.CreateRun{}, api.ProvisionRequest{}, api.WaitRequest{}, api.ExecuteRequest{}, api.ExecRequest{}, api.SignalExec{}, api.CreateSandbox{}}
	for _, s := range []string{
		`{"request":"x","limits":{"cpus":1}}`, `{"taskId":"a","envVars":{"A":"b"},"ttlSeconds":600}`, `{"timeout":30}`,
		`{"code":"x","language":"bash"}`, `{"args":["a"],"pty":{"cols":1,"rows":2}}`, `{"signal":9}`, `{}`, `[]`, `null`, ``, `{} {}`, `{"a":1}`, `{"request":null}`,
		`{"REQUEST":"x"}`, `{"timeout":1e400}`, `{"code":"\ud800"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, v := range types {
			in := reflect.New(reflect.TypeOf(v))
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(s))
			err := decode(httptest.NewRecorder(), r, in.Interface())
			if err != nil {
				if api.KindOf(err) != api.KindInvalid {
					t.Fatalf("%T of %q: %v", v, s, err)
				}
				continue
			}
			b, err := json.Marshal(in.Interface())
			if err != nil {
				t.Fatalf("%T of %q: %v", v, s, err)
			}
			again := reflect.New(reflect.TypeOf(v))
			if err := decode(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(b))), again.Interface()); err != nil {
				t.Fatalf("%T of %q: %s is not taken again: %v", v, s, b, err)
			}
		}
	})
}

func TestWantsEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/event-stream": true, "application/json, text/event-stream": true, "Text/Event-Stream; q=0.5": true, "text/event-stream;charset=utf-8": true,
		"": false, "*/*": false, "application/json": false, "text/event-stream;q=0": false, "text/event-streams": false, ";": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		if got := accepts(r, typeEvents); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}
