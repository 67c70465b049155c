package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/openai"
)

func TestMaxTemperature(t *testing.T) {
	for _, c := range []struct {
		model, url string
		ok         bool
	}{
		{"gpt-4.1", "", true}, {"gpt-3.5-turbo", "", true}, {"gpt-5", "", false}, {"o3", "", false}, {openai.DefaultModel, "", false},
		{"llama", "http://example.org/v1", true}, {"gpt-5", "http://example.org/v1", true},
	} {
		m, err := openai.New(openai.Config{Model: c.model, BaseURL: c.url})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := m.MaxTemperature(); ok != c.ok {
			t.Errorf("%s at %q: %t", c.model, c.url, ok)
		}
	}
}

// TestTemperatureIsSent: with both APIs, and only if there is one.
func TestTemperatureIsSent(t *testing.T) {
	var got map[string]json.RawMessage
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &got)
		http.Error(w, "no", http.StatusBadRequest)
	}))
	defer s.Close()
	for _, api := range []openai.API{openai.Chat, openai.Responses} {
		m, err := openai.New(openai.Config{Model: "m", BaseURL: s.URL, API: api})
		if err != nil {
			t.Fatal(err)
		}
		hot, err := model.WithTemperature(m, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		req := model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "x"}}}
		if hot.Generate(t.Context(), req, nil); string(got["temperature"]) != "0.25" {
			t.Errorf("%s: sent %s", api, got["temperature"])
		}
		if m.Generate(t.Context(), req, nil); got == nil || got["temperature"] != nil {
			t.Errorf("%s: sent %s without one", api, got["temperature"])
		}
	}
}
