package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/vector"
	"hortus.dev/test/embedserver"
)

func embedder(t *testing.T, h http.Handler, limits hosted.Limits) *Embedder {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	e, err := NewEmbedder(Config{Model: "words", BaseURL: srv.URL + "/v1", APIKey: "key-of-test", KeyHint: "Set it.", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEmbed(t *testing.T) {
	s := embedserver.New(32, map[string]string{"absent": "missing"})
	s.Require("key-of-test")
	e := embedder(t, s, hosted.Limits{})
	got, err := e.Embed(t.Context(), []string{"the module is missing", "socket refused", "the module is absent"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || len(got[0]) != 32 || !slices.Equal(got[0], got[2]) || vector.Cosine(got[0], got[1]) > 0.5 {
		t.Errorf("%v", got)
	}
	if e.Name() != "openai:words" || !slices.Equal(s.Models(), []string{"words"}) {
		t.Errorf("%s, asked %v", e.Name(), s.Models())
	}
	many := slices.Repeat([]string{"x"}, model.MaxTexts)
	if got, err := e.Embed(t.Context(), many); err != nil || len(got) != model.MaxTexts {
		t.Errorf("%d vectors, %v", len(got), err)
	}
	// What cannot be sent is not.
	calls := len(s.Calls())
	for _, bad := range [][]string{nil, append(many, "x"), {" \n"}, {strings.Repeat("x", model.MaxText+1)}} {
		if _, err := e.Embed(t.Context(), bad); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%d texts: %v", len(bad), err)
		}
	}
	if len(s.Calls()) != calls {
		t.Error("they were sent")
	}
}

// TestEmbedAnswers: what a server answers is checked before it is used.
func TestEmbedAnswers(t *testing.T) {
	ok := `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4e-1]}]}`
	long := "[1" + strings.Repeat(",1", vector.MaxDimension) + "]"
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   api.Kind
		says   string
	}{
		{"an answer", 200, ok, "", ""},
		{"another order", 200, `{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}]}`, "", ""},
		{"no numbers of texts", 200, `{"data":[{"embedding":[1,2]},{"embedding":[3,4]}]}`, "", ""},
		{"too few", 200, `{"data":[{"index":0,"embedding":[1,2]}]}`, api.KindUnavailable, "1 vectors for 2 texts"},
		{"too many", 200, `{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}`, api.KindUnavailable, "3 vectors for 2 texts"},
		{"far too many", 200, `{"data":[{}` + strings.Repeat(",{}", 100_000) + `]}`, api.KindUnavailable, "more than 64 vectors"},
		{"twice the same", 200, strings.ReplaceAll(ok, `"index":1`, `"index":0`), api.KindUnavailable, "index 0"},
		{"an index outside", 200, strings.ReplaceAll(ok, `"index":1`, `"index":2`), api.KindUnavailable, "index 2"},
		{"an index below", 200, strings.ReplaceAll(ok, `"index":1`, `"index":-1`), api.KindUnavailable, "index -1"},
		{"two dimensions", 200, `{"data":[{"embedding":[1,2]},{"embedding":[3]}]}`, api.KindUnavailable, "of 2 and of 1 numbers"},
		{"no dimension", 200, `{"data":[{"embedding":[]},{"embedding":[]}]}`, api.KindUnavailable, "0 numbers"},
		{"too large a dimension", 200, `{"data":[{"embedding":` + long + `},{"embedding":[1]}]}`, api.KindUnavailable, "4097 numbers"},
		{"NaN", 200, `{"data":[{"embedding":[NaN,2]},{"embedding":[3,4]}]}`, api.KindUnavailable, "N"},
		{"NaN as a text", 200, `{"data":[{"embedding":["NaN",2]},{"embedding":[3,4]}]}`, api.KindUnavailable, "not a finite number"},
		{"infinite", 200, `{"data":[{"embedding":[1e39,2]},{"embedding":[3,4]}]}`, api.KindUnavailable, "not a finite number"},
		{"null", 200, `{"data":[{"embedding":[null,2]},{"embedding":[3,4]}]}`, api.KindUnavailable, "not a finite number"},
		{"base64", 200, `{"data":[{"embedding":"AACAPw=="},{"embedding":"AACAPw=="}]}`, api.KindUnavailable, "not one of the embeddings API"},
		{"data is an object", 200, `{"data":{"0":1}}`, api.KindUnavailable, "not an array"},
		{"another document", 200, `{"object":"list"}`, api.KindUnavailable, "0 vectors"},
		{"half a document", 200, ok[:30], api.KindUnavailable, "not one of the embeddings API"},
		{"overload", 429, `{"error":{"message":"slow down","type":"rate_limit"}}`, api.KindExhausted, "slow down"},
		{"no credit", 429, `{"error":{"message":"pay","code":"insufficient_quota"}}`, api.KindDenied, "pay"},
		{"a failure", 500, `{"error":{"message":"key-of-test is bad"}}`, api.KindUnavailable, "[key] is bad"},
		{"a failure in other words", 500, `{"detail":"out of memory"}`, api.KindUnavailable, "out of memory"},
		{"a refusal in other words", 400, `input is too large`, api.KindInvalid, "input is too large"},
		{"a wrong key", 401, `{}`, api.KindUnauthenticated, "401"},
		{"no such model", 404, `{"error":{"message":"no model"}}`, api.KindNotFound, "no model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := embedserver.New(2, nil)
			s.Next(c.status, "", c.body)
			got, err := embedder(t, s, hosted.Limits{}).Embed(t.Context(), []string{"a", "b"})
			if api.KindOf(err) != c.kind {
				t.Fatalf("%v, %v", got, err)
			}
			if err == nil {
				if got[0][0] != 1 || got[1][0] != 3 {
					t.Errorf("%v", got)
				}
				return
			}
			if got != nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 500 || strings.Contains(err.Error(), "key-of-test") {
				t.Errorf("%v, %v", got, err)
			}
			if c.status == 200 && api.HintOf(err) == "" || strings.Contains(api.HintOf(err), "--model") || strings.Contains(api.HintOf(err), "streaming") {
				t.Errorf("hint %q", api.HintOf(err))
			}
		})
	}
	// An answer has a limit while it comes, and only JSON is one.
	s := embedserver.New(2, nil)
	s.Next(200, "", strings.Repeat(" ", 5000)+ok)
	if _, err := embedder(t, s, hosted.Limits{Bytes: 1000}).Embed(t.Context(), []string{"a", "b"}); api.KindOf(err) != api.KindExhausted {
		t.Error(err)
	}
	s.Next(200, "Content-Type: text/html", ok)
	if _, err := embedder(t, s, hosted.Limits{}).Embed(t.Context(), []string{"a", "b"}); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "instead of JSON") {
		t.Error(err)
	}
}

func TestEmbedderIsReady(t *testing.T) {
	if _, err := NewEmbedder(Config{APIKey: "k"}); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
	for base, want := range map[string]api.Kind{"": api.KindUnauthenticated, "https://api.openai.com/v1": api.KindUnauthenticated, "http://127.0.0.1:1/v1": ""} {
		e, err := NewEmbedder(Config{Model: "m", BaseURL: base, KeyHint: "Set it."})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(); api.KindOf(err) != want {
			t.Errorf("%q: %v", base, err)
		}
		if _, err := e.Embed(t.Context(), []string{"a"}); err == nil || want != "" && api.KindOf(err) != want {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// FuzzVectors holds that whatever an answer says, what comes of it can be used.
func FuzzVectors(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}]}`))
	f.Add([]byte(`{"data":[{"embedding":[1e39,null]},{"embedding":"AACAPw=="}]}`))
	f.Add([]byte(`{"data":[],"data":[{"embedding":[1]},{"embedding":[1]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readVectors(b, 2)
		if err != nil {
			if got != nil {
				t.Fatal(got)
			}
			return
		}
		if len(got) != 2 || len(got[0]) != len(got[1]) {
			t.Fatal(got)
		}
		for _, v := range got {
			if err := vector.Check(v); err != nil {
				t.Fatal(err)
			}
		}
		again, err := json.Marshal(map[string]any{"data": []any{map[string]any{"embedding": got[0]}, map[string]any{"embedding": got[1]}}})
		if err != nil {
			t.Fatal(err)
		}
		if same, err := readVectors(again, 2); err != nil || fmt.Sprint(same) != fmt.Sprint(got) {
			t.Fatal(same, err)
		}
	})
}
