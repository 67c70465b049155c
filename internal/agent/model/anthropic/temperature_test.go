package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
)

func TestMaxTemperature(t *testing.T) {
	for name, want := range map[string]bool{"claude-3-5-haiku-latest": true, "claude-sonnet-4-5": true, "claude-opus-4-7": false, anthropic.DefaultModel: false} {
		if _, ok := anthropic.New(anthropic.Config{Model: name}).MaxTemperature(); ok != want {
			t.Errorf("%s: %t", name, ok)
		}
	}
}

// TestTemperatureIsSent: only if there is one.
func TestTemperatureIsSent(t *testing.T) {
	var got map[string]json.RawMessage
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &got)
		http.Error(w, "no", http.StatusBadRequest)
	}))
	defer s.Close()
	m := anthropic.New(anthropic.Config{Model: "claude-sonnet-4-5", BaseURL: s.URL})
	hot, err := model.WithTemperature(m, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	req := model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "x"}}}
	if hot.Generate(t.Context(), req, nil); string(got["temperature"]) != "0.25" {
		t.Errorf("sent %s", got["temperature"])
	}
	if m.Generate(t.Context(), req, nil); got == nil || got["temperature"] != nil {
		t.Errorf("sent %s without one", got["temperature"])
	}
}
