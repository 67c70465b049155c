package front

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
)

// TestKeyExpires: a request that lasts ends when its key does. The control is a request of a key without an end.
func TestKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &Front{
			Servers: []Server{{Takes: Below("/"), Keyed: true, Sessions: true, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}},
			Authenticate: func(_ context.Context, key string) (api.Principal, error) {
				if key == "short" {
					return api.Principal{Account: "a", Role: api.RoleUser, ExpiresAt: began.Add(time.Hour)}, nil
				}
				return api.Principal{Account: "a", Role: api.RoleUser}, nil
			},
			Sessions: shortSession{began.Add(time.Hour)},
		}
		follow := func(key string) (ended chan time.Duration, leave context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			ended = make(chan time.Duration, 1)
			go func() {
				r := httptest.NewRequest("GET", "/v1/watch", nil).WithContext(ctx)
				if key != "" {
					r.Header.Set("X-API-KEY", key)
				}
				f.ServeHTTP(httptest.NewRecorder(), r)
				ended <- time.Since(began)
			}()
			return ended, cancel
		}
		short, leave := follow("short")
		defer leave()
		session, leave := follow("")
		defer leave()
		lasting, leave := follow("lasting")
		for name, ended := range map[string]chan time.Duration{"key": short, "session": session} {
			if after := <-ended; after != time.Hour {
				t.Errorf("the request of a %s ended after %s", name, after)
			}
		}
		time.Sleep(24 * time.Hour) // of the test's own clock
		select {
		case <-lasting:
			t.Error("the request of a key without an end ended")
		default:
		}
		leave()
		<-lasting
	})
}

// shortSession is the session of every request, and ends with its key.
type shortSession struct{ ends time.Time }

func (s shortSession) Take(*http.Request) func(context.Context) (api.Principal, error) {
	return func(context.Context) (api.Principal, error) {
		return api.Principal{Account: "a", Role: api.RoleUser, ExpiresAt: s.ends}, nil
	}
}
