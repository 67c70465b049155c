package body

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
)

// thing is what the tests ask for.
type thing struct {
	Name  string `json:"name"`
	Inner struct {
		N int `json:"n"`
	} `json:"inner"`
	On   bool     `json:"on,omitempty"`
	Data []byte   `json:"data,omitempty"`
	All  []string `json:"all,omitempty"`
	Part float64  `json:"part,omitempty"`
}

var form = Form{Max: 64, Member: "option"}

func request(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{`{"name":"a","inner":{"n":1}}`, ""},
		{" {} \n", ""},
		{"{\"name\":\"a\xff\"}", "the JSON has text that is not Unicode, at byte 10"},
		{`{"name":"\udcff"}`, "the JSON has text that is not Unicode, at byte 9"},
		{"", "the request is empty; a JSON object is expected"},
		{"{", "the request is malformed: unexpected EOF"},
		{"[]", "the request is array; a JSON object is expected"},
		{" null ", "the request is null; a JSON object is expected"},
		{`{"name":1}`, `option "name" cannot be number: a string is expected`},
		{`{"inner":{"n":"x"}}`, `option "inner.n" cannot be string: a whole number is expected`},
		{`{"inner":{"n":1.5}}`, `option "inner.n" cannot be number 1.5: a whole number is expected`},
		{`{"inner":{"n":9223372036854775808}}`, `option "inner.n" cannot be number 9223372036854775808: it is out of range`},
		{`{"inner":[]}`, `option "inner" cannot be array: an object is expected`},
		{`{"on":1}`, `option "on" cannot be number: true or false is expected`},
		{`{"data":{}}`, `option "data" cannot be object: a string in base64 is expected`},
		{`{"all":1}`, `option "all" cannot be number: an array is expected`},
		{`{"part":""}`, `option "part" cannot be string: a number is expected`},
		{`{"nmae":"a"}`, `unknown option "nmae"`},
		{`{"` + strings.Repeat("x", 70) + `":1}`, "the request has more than 64 bytes"},
		{`{"name":"` + strings.Repeat("x", 70) + `"}`, "the request has more than 64 bytes"},
		{`{}{}`, "the request has more than one JSON value"},
		{`{}x`, "the request has more than one JSON value"},
		{"{'name':1}", "the request is malformed: invalid character '\\'' looking for beginning of object key string"},
	} {
		var v thing
		err := form.Decode(httptest.NewRecorder(), request(tt.body), &v)
		switch {
		case tt.want == "":
			if err != nil {
				t.Errorf("%s: %v", tt.body, err)
			}
		case api.KindOf(err) != api.KindInvalid || err.Error() != tt.want:
			t.Errorf("%s: %v; want %s", tt.body, err, tt.want)
		}
	}
}

func TestDecodeAny(t *testing.T) {
	v := thing{Name: "before"}
	if err := form.DecodeAny(httptest.NewRecorder(), request(""), &v); err != nil || v.Name != "before" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := form.DecodeAny(httptest.NewRecorder(), request(`{"name":"a"}`), &v); err != nil || v.Name != "a" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := form.DecodeAny(httptest.NewRecorder(), request(" "), &v); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a blank: %v", err)
	}
}

func TestNone(t *testing.T) {
	for body, want := range map[string]string{"": "", "{}": "", " {}\n": "", `{"name":"a"}`: `unknown option "name"`, "x": "the request is malformed", "[]": "a JSON object is expected"} {
		err := form.None(httptest.NewRecorder(), request(body))
		if want == "" && err != nil || want != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestEncoding(t *testing.T) {
	for how, ok := range map[string]bool{"": true, "identity": true, "gzip": false, "GZIP, br": false} {
		r := request("{}")
		r.Header.Set("Content-Encoding", how)
		if err := form.Decode(httptest.NewRecorder(), r, &thing{}); ok != (err == nil) || err != nil && (api.KindOf(err) != api.KindInvalid || api.HintOf(err) == "") {
			t.Errorf("%q: %v", how, err)
		}
	}
}

func TestRead(t *testing.T) {
	if b, err := form.Read(httptest.NewRecorder(), request(" x ")); err != nil || string(b) != " x " {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := form.Read(httptest.NewRecorder(), request(strings.Repeat("x", 65))); api.KindOf(err) != api.KindInvalid {
		t.Errorf("%v", err)
	}
}

func TestAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	Answer(w, http.StatusCreated, thing{Name: "a"})
	if w.Code != http.StatusCreated || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != `{"name":"a","inner":{"n":0}}`+"\n" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// FuzzDecode reads hostile bodies: what is refused is refused with a bounded word.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"a"}`, `{"inner":{"n":1e99}}`, "", "{", "[[[[", `{"\u0000":1}`, "\xff", `{}{}`, `{"name":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v thing
		err := form.DecodeAny(httptest.NewRecorder(), request(s), &v)
		if err != nil && (api.KindOf(err) != api.KindInvalid || len(err.Error()) > 600) {
			t.Errorf("%v", err)
		}
		if err == nil && int64(len(s)) > form.Max {
			t.Errorf("%d bytes were taken", len(s))
		}
	})
}
