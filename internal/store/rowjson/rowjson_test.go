package rowjson

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type row struct {
	Name   string            `json:"name"`
	Names  []string          `json:"names,omitempty"`
	Pairs  [2]string         `json:"pairs"`
	Env    map[string]string `json:"env,omitempty"`
	Child  *row              `json:"child,omitempty"`
	Any    any               `json:"any,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	At     time.Time         `json:"at,omitzero"`
	Hidden error             `json:"-"`
	N      int               `json:"n"`
	own    string
}

const wild = "a\xff\xc3(\xed\xa0\x80\x00\uFDCF\uFDD0\uFDE5\uFDEF\uFDF0\uFFFD\U0001F600"

func TestRoundTrip(t *testing.T) {
	in := row{
		Name: wild, Names: []string{"", wild}, Pairs: [2]string{wild, "b"},
		Env: map[string]string{wild: wild, "k\xfe": "v", "k\xfd": "w"}, Child: &row{Name: wild}, Any: wild,
		Raw: json.RawMessage(`{"a":1}`), Bytes: []byte(wild), At: time.Unix(1, 2000).UTC(), N: 3,
	}
	before := in
	before.Names, before.Child = append([]string(nil), in.Names...), &row{Name: wild}
	data, err := Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(data) {
		t.Error("the encoding is not UTF-8")
	}
	var out row
	if err := Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	eq := cmp.AllowUnexported(row{})
	if diff := cmp.Diff(in, out, eq); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, in, eq); diff != "" {
		t.Error("Marshal changed its operand:", diff)
	}
}

// TestControl shows what the package is for: plain JSON loses these bytes.
func TestControl(t *testing.T) {
	data, _ := json.Marshal(row{Name: wild})
	var out row
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if out.Name == wild {
		t.Fatal("encoding/json keeps wrong UTF-8; this package is not needed")
	}
}

func TestPlainTextStaysPlain(t *testing.T) {
	for _, v := range []any{row{Name: "ü \uFFFD \u2028 <&>", Env: map[string]string{"A": "b"}}, "x", 7, nil, []string(nil), map[string]int{"a": 1}} {
		want, _ := json.Marshal(v)
		got, err := Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%v: %s (%v), want %s", v, got, err, want)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	var s string
	for _, v := range []any{nil, s, (*string)(nil)} {
		if err := Unmarshal([]byte(`"x"`), v); err == nil {
			t.Errorf("decoded into %T", v)
		}
	}
	if err := Unmarshal([]byte(`"x`), &s); err == nil {
		t.Error("decoded half a string")
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", wild, "\uFDD0", "\uFDD0\uFDE0", "\uFDE0\uFDD0", "\xef\xb7", "\xef\xb7\x90\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if !utf8.ValidString(e) {
			t.Fatalf("%q is escaped as %q", s, e)
		}
		if got := unescape(e); got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
		data, err := Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]string
		if err := Unmarshal(data, &out); err != nil || !reflect.DeepEqual(out, map[string]string{s: s}) {
			t.Fatalf("%q came back as %q (%v)", s, out, err)
		}
	})
}

// FuzzUnmarshal feeds rows that Marshal did not make: they decode or fail, and
// what decodes survives the next round.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"name":"` + "\uFDD0\uFDD1\uFDE1" + `","env":{"` + "\uFDE0" + `":"x"}}`))
	f.Add([]byte(`{"any":{"a":["` + "\uFDDF\uFDEF" + `"]},"child":{"child":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b row
		if Unmarshal(data, &a) != nil {
			return
		}
		again, err := Marshal(a)
		if err != nil {
			t.Skip("a value that JSON cannot show (a raw message or a time)")
		}
		if err := Unmarshal(again, &b); err != nil {
			t.Fatal(err)
		}
		if a.Name != b.Name || !reflect.DeepEqual(a.Names, b.Names) && len(a.Names) > 0 {
			t.Fatalf("%+v became %+v", a, b)
		}
	})
}
