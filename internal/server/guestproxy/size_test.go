package guestproxy_test

import (
	"net/http"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// A client without a terminal of its own names no size, or 0 by 0.
func TestTerminalSize(t *testing.T) {
	for _, c := range []struct {
		size *envd.Size
		want api.PTYSize
		kind api.Kind
	}{
		{nil, api.PTYSize{Cols: 80, Rows: 24}, ""},
		{&envd.Size{}, api.PTYSize{Cols: 80, Rows: 24}, ""},
		{&envd.Size{Cols: 120}, api.PTYSize{Cols: 120, Rows: 24}, ""},
		{&envd.Size{Cols: 132, Rows: 50}, api.PTYSize{Cols: 132, Rows: 50}, ""},
		{&envd.Size{Cols: 1 << 16, Rows: 24}, api.PTYSize{}, api.KindInvalid},
	} {
		req, err := guestproxy.ExecRequest(&http.Request{Header: http.Header{}}, &envd.StartRequest{
			Process: &envd.ProcessConfig{Cmd: "bash"}, PTY: &envd.PTY{Size: c.size},
		})
		if api.KindOf(err) != c.kind || err == nil && *req.PTY != c.want {
			t.Errorf("%+v: %+v, %v; want %+v", c.size, req.PTY, err, c.want)
		}
	}
}
