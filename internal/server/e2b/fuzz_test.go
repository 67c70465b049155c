package e2b

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// FuzzMetadata: what a client encodes as the SDKs do is what is read, and nothing
// that is read is without bounds.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{"", "a=b", "user%20id=a%26b", "a", "=b", "a=%", "a=%25zz", "a=b&a=c", "a;b", "%ff=%ff", strings.Repeat("a=b&", 100)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		if got, err := parseMetadata(raw); err == nil && (len(got) > api.MaxLabels || len(raw) > maxQuery) {
			t.Errorf("%d pairs of %d bytes", len(got), len(raw))
		} else if err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%v", err)
		}
		component := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
		encoded := url.Values{component(raw): {component(value)}}.Encode()
		if len(encoded) > maxQuery {
			return
		}
		got, err := parseMetadata(encoded)
		if err != nil || len(got) != 1 || got[0] != (pair{raw, value}) {
			t.Errorf("%q, %q became %q: %q, %v", raw, value, encoded, got, err)
		}
	})
}

// FuzzCreate: no body of a request does anything but make a request for a sandbox
// that stays within bounds, or fail with an error that is the client's.
func FuzzCreate(f *testing.F) {
	for _, s := range []string{
		`{"templateID":"base"}`, `{"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true,"autoPause":false}`,
		`{"templateID":"base","metadata":{"a":"b"},"envVars":{"A":"b"},"network":{"denyOut":["10.0.0.0/8"],"allowPublicTraffic":false},"autoPause":true,"autoResume":{"enabled":true}}`,
		`null`, `{}`, `[`, `{"templateID":null}`, `{"templateID":"x","volumeMounts":[null]}`,
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	d := sandboxes{answers: answers{catalog: catalog{aliases: DefaultAliases()}}}
	f.Fuzz(func(t *testing.T, body string, legacy bool) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		var in newSandbox
		err := decode(httptest.NewRecorder(), r, &in)
		var req api.CreateSandbox
		if err == nil {
			req, err = d.request(in, legacy)
		}
		if err != nil {
			if k := api.KindOf(err); k != api.KindInvalid && k != api.KindUnsupported && k != api.KindNotFound {
				t.Errorf("%v is %s", err, k)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if _, err := json.Marshal(wireOf(err)); err != nil {
				t.Error(err)
			}
			return
		}
		if req.TTLMS <= 0 || req.TTLMS > api.MaxTTL.Milliseconds() || len(req.Labels) > api.MaxLabels || !api.ValidSnapshotName(req.Template) {
			t.Errorf("%+v", req)
		}
	})
}

// FuzzToken: a token is read as it was written, and nothing else is one.
func FuzzToken(f *testing.F) {
	f.Add("", int64(0))
	f.Add("MC5pMDAwMDAwMDAwMDAwMDAwMDAwMA", int64(1))
	f.Fuzz(func(t *testing.T, raw string, micros int64) {
		if m, ok := parsePosition(raw); ok && len(m.id) != api.IDLen {
			t.Errorf("%q is %+v", raw, m)
		}
		m := position{time.UnixMicro(micros).UTC(), string(api.NewSandboxID())}
		if got, ok := parsePosition(m.token()); !ok || got.compare(m) != 0 {
			t.Errorf("%+v became %+v", m, got)
		}
	})
}
