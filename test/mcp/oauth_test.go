package mcp

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"hortus.dev/test/world"
)

// bearer keeps the token that a client sends.
type bearer struct{ token string }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		b.token = t
	}
	return http.DefaultTransport.RoundTrip(r)
}

var sealed = regexp.MustCompile(`name="request" value="([^"]+)"`)

// TestOAuth has the SDK's client find the authorization server of a daemon, register, sign in as a person does in a browser, and use the
// tools. Its token is for nothing else, and ends with the key.
func TestOAuth(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{Outside: world.NewOutside(t)})
	if status, _ := w.Call("GET", "/.well-known/oauth-authorization-server", ""); status != http.StatusNotFound && status != http.StatusUnauthorized {
		t.Errorf("without a public URL: %d", status)
	}
	w.Config.Front.Listen, w.Config.Front.PublicURL = strings.TrimPrefix(w.URL, "http://"), w.URL
	w.Restart()
	key := w.Key("alice", "")

	// browse is a person whose browser comes from a page of the client.
	browse := func(ctx context.Context, to string) (*auth.AuthorizationResult, error) {
		req := world.Must(http.NewRequestWithContext(ctx, "GET", to, nil))(t)
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		resp := world.Must(http.DefaultTransport.RoundTrip(req))(t)
		page := string(world.Must(io.ReadAll(resp.Body))(t))
		resp.Body.Close()
		found := sealed.FindStringSubmatch(page)
		if resp.StatusCode != http.StatusOK || found == nil || !strings.Contains(page, "Test of Hortus") {
			t.Fatalf("the page of consent: %s\n%s", resp.Status, page)
		}
		form := url.Values{"request": {found[1]}, "key": {key.Secret}, "decision": {"allow"}}.Encode()
		req = world.Must(http.NewRequestWithContext(ctx, "POST", w.URL+"/oauth/authorize", strings.NewReader(form)))(t)
		for _, h := range [][2]string{{"Content-Type", "application/x-www-form-urlencoded"}, {"Origin", w.URL}, {"Sec-Fetch-Site", "same-origin"}} {
			req.Header.Set(h[0], h[1])
		}
		resp = world.Must(http.DefaultTransport.RoundTrip(req))(t)
		resp.Body.Close()
		back := world.Must(resp.Location())(t)
		return &auth.AuthorizationResult{Code: back.Query().Get("code"), State: back.Query().Get("state"), Iss: back.Query().Get("iss")}, nil
	}
	const callback = "http://localhost:1/callback"
	handler := world.Must(auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "Test of Hortus", RedirectURIs: []string{callback}}},
		RedirectURL:                     callback,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			return browse(ctx, args.URL)
		},
	}))(t)
	sent := &bearer{}
	p := connect(t, &mcp.StreamableClientTransport{Endpoint: w.URL + "/mcp", HTTPClient: &http.Client{Transport: sent}, OAuthHandler: handler, MaxRetries: -1}, options{version: stateless})
	p.call("sandbox_list", nil)
	if !strings.HasPrefix(sent.token, "hot_") {
		t.Fatalf("the client sends %.10q", sent.token)
	}

	call := func(path, body string, header ...string) (int, string) {
		method := "POST"
		if body == "" {
			method = "GET"
		}
		return w.Call(method, path, body, append([]string{"Content-Type", jsonType, "Accept", accept, "MCP-Protocol-Version", handshake}, header...)...)
	}
	as := []string{"Authorization", "Bearer " + sent.token}
	if status, _ := call("/mcp", list, as...); status != http.StatusOK {
		t.Errorf("the control: %d", status)
	}
	if status, _ := call("/mcp", list, "Authorization", "Bearer "+key.Secret); status != http.StatusOK {
		t.Errorf("an API key: %d", status)
	}
	for _, path := range []string{"/v1/sandboxes", "/v1/tasks", "/sandboxes", "/v2/sandboxes", "/metrics"} {
		if status, answer := call(path, "", as...); status != http.StatusUnauthorized {
			t.Errorf("the token at %s: %d %.200s", path, status, answer)
		}
		if status, answer := call(path, "", "X-API-Key", sent.token); status != http.StatusUnauthorized {
			t.Errorf("the token as a key at %s: %d %.200s", path, status, answer)
		}
	}
	// A client's metadata at a name that leads to this machine, and at an address of it.
	for _, id := range []string{"https://example.com/client.json", "https://127.0.0.1/client.json"} {
		q := url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {callback}, "code_challenge": {strings.Repeat("x", 43)}, "code_challenge_method": {"S256"}}
		if status, page := call("/oauth/authorize?"+q.Encode(), ""); status != http.StatusBadRequest || !strings.Contains(page, "metadata of the client cannot be used") || strings.Contains(page, "<form") {
			t.Errorf("%s: %d %s", id, status, page)
		}
	}
	world.Must(w.Client.Keys.Revoke(t.Context(), string(key.ID)))(t)
	for name, header := range map[string][]string{"after the key was revoked": as, "without a key": nil} {
		req := world.Must(http.NewRequestWithContext(t.Context(), "POST", w.URL+"/mcp", strings.NewReader(list)))(t)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp := world.Must(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		if want := `Bearer resource_metadata="` + w.URL + `/.well-known/oauth-protected-resource/mcp"`; resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != want {
			t.Errorf("%s: %s %q", name, resp.Status, resp.Header.Get("WWW-Authenticate"))
		}
	}
}
