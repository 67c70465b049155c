package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/client"
	server "hortus.dev/internal/server/mcp"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// Versions of the protocol: the last with a handshake that clients of today speak, and the one without.
const (
	handshake = "2025-06-18"
	stateless = "2026-07-28"
)

// peer is a client of the protocol.
type peer struct {
	*mcp.ClientSession
	t *testing.T
	// progress has the messages of notifications.
	progress chan string
}

// options are what a client can do.
type options struct {
	version string
	elicit  func(*mcp.ElicitRequest) (*mcp.ElicitResult, error)
}

func connect(t *testing.T, transport mcp.Transport, o options) *peer {
	t.Helper()
	p := &peer{t: t, progress: make(chan string, 1000)}
	opt := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.progress <- r.Params.Message
		},
	}
	if o.elicit != nil {
		opt.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return o.elicit(r) }
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opt)
	s, err := c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: o.version})
	if err != nil {
		t.Fatal(err)
	}
	p.ClientSession = s
	t.Cleanup(func() { s.Close() })
	return p
}

// stdio connects to a server in this process over pipes, as "hortus mcp" serves it. Its calls return after hold.
func stdio(t *testing.T, c *client.Client, hold time.Duration, o options) *peer {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		s := server.New(server.Config{Hold: hold, Report: hold / 4})
		ended <- s.ServeStdio(context.WithoutCancel(t.Context()), func(context.Context) (*client.Client, error) { return c, nil }, in, out)
		out.Close()
	}()
	t.Cleanup(func() {
		toServer.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return connect(t, &mcp.IOTransport{Reader: fromServer, Writer: toServer}, o)
}

// keyed sends an API key with each request.
type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// remote connects to POST /mcp with an API key.
func remote(t *testing.T, w *world.World, key api.CreatedKey, o options) *peer {
	t.Helper()
	return connect(t, &mcp.StreamableClientTransport{Endpoint: w.URL + "/mcp", HTTPClient: &http.Client{Transport: keyed{key.Secret}}, MaxRetries: -1}, o)
}

// try calls a tool and returns its structured result, and the text of an error.
func (p *peer) try(tool string, args map[string]any) (out map[string]any, failed string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience.Of(time.Minute))
	defer cancel()
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken(tool)
	res, err := p.CallTool(ctx, params)
	if err != nil {
		p.t.Fatalf("%s %v: %v", tool, args, err)
	}
	if len(res.Content) != 1 {
		p.t.Fatalf("%s: %d parts of content", tool, len(res.Content))
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return nil, text
	}
	out, _ = res.StructuredContent.(map[string]any)
	var same map[string]any
	if json.Unmarshal([]byte(text), &same) != nil || len(same) != len(out) {
		p.t.Errorf("%s: the text is not the result: %s", tool, text)
	}
	return out, ""
}

// call is try for what must succeed.
func (p *peer) call(tool string, args map[string]any) map[string]any {
	p.t.Helper()
	out, failed := p.try(tool, args)
	if failed != "" {
		p.t.Fatalf("%s %v: %s", tool, args, failed)
	}
	return out
}

// create creates a sandbox that ends with the test.
func (p *peer) create(args map[string]any) string {
	p.t.Helper()
	id := p.call("sandbox_create", args)["sandbox_id"].(string)
	p.t.Cleanup(func() {
		_, err := p.CallTool(context.WithoutCancel(p.t.Context()), &mcp.CallToolParams{Name: "sandbox_kill", Arguments: map[string]any{"sandbox_id": id}})
		if err != nil && !strings.Contains(err.Error(), "closed") {
			p.t.Error(err)
		}
	})
	return id
}
