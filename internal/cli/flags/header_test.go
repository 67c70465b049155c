package flags

import (
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestHeaders(t *testing.T) {
	got, err := Headers("--header", []string{
		"api.example.org Authorization: Bearer ${secret:key}", "*.Example.org:8443 X-Env:a: b", "https://api.example.org  X-Key: ${secret:key}",
	})
	want := []api.HeaderRule{
		{Host: "api.example.org", Port: 443, Headers: map[string]string{"Authorization": "Bearer ${secret:key}", "X-Key": "${secret:key}"}},
		{Host: "*.example.org", Port: 8443, Headers: map[string]string{"X-Env": "a: b"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Headers("--header", nil); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for value, text := range map[string]string{
		"":                                   "HOST NAME: VALUE",
		"api.example.org":                    "HOST NAME: VALUE",
		"api.example.org X-Key":              "HOST NAME: VALUE",
		"X-Key: value":                       "HOST NAME: VALUE", // it has no host
		"api.example.org :value":             "HOST NAME: VALUE",
		"api.example.org:x X-Key: value":     "not a port",
		"http://api.example.org X-Key: v":    "HTTPS",
		"api.example.org Host: b":            "cannot set",
		"api.example.org X-Key: ${secret:}":  "reference",
		"api.example.org X-Key: ${secrets.a": "reference",
		"192.0.2.1 X-Key: value":             "address",
	} {
		_, err := Headers("--header", []string{value})
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), text) || !strings.HasPrefix(err.Error(), "--header") {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := Headers("--header", []string{"a.example X-Key: a", "a.example X-Key: b"}); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}
