package mcp

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/egress/policy"
)

// defaultTTL is the time to live of a sandbox. It is longer than that of the API: a model thinks between its calls.
const defaultTTL = 30 * time.Minute

// maxListed is the maximum number of rows of a list.
const maxListed = 500

func (s *Server) sandboxTools() {
	add(s, "sandbox_create", "Create a sandbox", mcp.ToolAnnotations{DestructiveHint: new(bool)},
		"Create an isolated sandbox: its own file system, processes and users, no network by default. It ends after ttl_seconds.", (*session).createSandbox)
	add(s, "sandbox_list", "List sandboxes", reads, "List the sandboxes that run or are paused, the newest first.", (*session).listSandboxes)
	add(s, "sandbox_fork", "Fork a sandbox", adds,
		"Copy a running sandbox, with its files and, if the isolation supports it, its memory and running processes. Use it to try several changes from the same state.", (*session).forkSandbox)
	add(s, "sandbox_kill", "Kill a sandbox", replaces, "End a sandbox with all of its processes and files. Keep what you need before.", (*session).killSandbox)
	add(s, "preview_url", "URL of a port", reads, "Get the URL of a program that listens on a port in a sandbox.", (*session).previewURL)
}

// sandboxView is a sandbox as tools show it.
type sandboxView struct {
	SandboxID string    `json:"sandbox_id"`
	State     string    `json:"state" jsonschema:"running, paused or ended"`
	Isolation string    `json:"isolation,omitempty"`
	Template  string    `json:"template,omitempty"`
	Egress    string    `json:"egress,omitempty" jsonschema:"what it may connect to: none, rules or host"`
	Parent    string    `json:"parent,omitempty" jsonschema:"the sandbox that it was forked from"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func viewOf(b api.Sandbox) sandboxView {
	return sandboxView{string(b.ID), string(b.State), b.Isolation, b.Template, b.Egress, string(b.Parent), b.CreatedAt, b.ExpiresAt}
}

// sandbox finds a sandbox of the caller's. The caller closes it.
func (s *session) sandbox(ctx context.Context, id string) (*client.Sandbox, error) {
	return s.client.Sandboxes.Get(ctx, id)
}

type createInput struct {
	Template   string            `json:"template,omitempty" jsonschema:"Name of a template or image. Default: host, the toolchains of the daemon's machine."`
	TTLSeconds int64             `json:"ttl_seconds,omitempty" jsonschema:"Time to live in seconds, 1 to 86400 (default 1800)"`
	Egress     []string          `json:"egress,omitempty" jsonschema:"What it may connect to: presets (npm, pip, go, apt, git), hosts such as example.org or *.example.org:8080, and ask to let a person decide about the rest. Default: nothing."`
	Env        map[string]string `json:"env,omitempty" jsonschema:"Environment variables of every command"`
	Workspace  string            `json:"workspace,omitempty" jsonschema:"Name of a workspace whose files are mounted at /workspace and outlive the sandbox"`
	CPUs       float64           `json:"cpus,omitempty" jsonschema:"Processors (default 1)"`
	MemoryMiB  int64             `json:"memory_mib,omitempty" jsonschema:"Memory in MiB (default 1024)"`
	DiskMiB    int64             `json:"disk_mib,omitempty" jsonschema:"Maximum size of written files in MiB (default 512)"`
}

func (s *session) createSandbox(ctx context.Context, call *mcp.CallToolRequest, in createInput) (*mcp.CallToolResult, sandboxView, error) {
	req := api.CreateSandbox{
		Template: in.Template, TTLMS: cmp.Or(in.TTLSeconds*1000, defaultTTL.Milliseconds()), Env: in.Env, Workspace: in.Workspace,
		Limits: api.Limits{CPUs: in.CPUs, MemoryBytes: in.MemoryMiB << 20, DiskBytes: in.DiskMiB << 20},
	}
	var err error
	if req.Egress, err = egressOf(in.Egress); err != nil {
		return nil, sandboxView{}, err
	}
	var phase atomic.Value
	phase.Store("starting a sandbox")
	stop := s.progress(ctx, call, func() string { return phase.Load().(string) })
	b, err := s.client.Sandboxes.Create(api.WithWaitTold(ctx, func(w api.WaitingEvent) { phase.Store("a sandbox " + w.Words()) }), req)
	stop()
	if err != nil {
		return nil, sandboxView{}, err
	}
	defer b.Close()
	row, err := b.Info(ctx)
	return nil, viewOf(row), err
}

// egressOf reads what a sandbox may connect to; nil for what its template says.
func egressOf(specs []string) (*api.EgressPolicy, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	p, err := policy.ParseAll(specs)
	return &p, err
}

type listOutput struct {
	Sandboxes []sandboxView `json:"sandboxes,omitempty"`
	Truncated bool          `json:"truncated,omitempty"`
}

func (s *session) listSandboxes(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, listOutput, error) {
	rows, err := s.client.Sandboxes.List(ctx, false)
	out := listOutput{Truncated: len(rows) > maxListed}
	for _, row := range rows[:min(len(rows), maxListed)] {
		out.Sandboxes = append(out.Sandboxes, viewOf(row))
	}
	return nil, out, err
}

type forkInput struct {
	SandboxID  string `json:"sandbox_id"`
	Count      int    `json:"count,omitempty" jsonschema:"Number of copies (default 1)"`
	TTLSeconds int64  `json:"ttl_seconds,omitempty" jsonschema:"Time to live of each copy in seconds (default: what the original has left)"`
	FilesOnly  bool   `json:"files_only,omitempty" jsonschema:"Copy files only, not memory and running processes"`
}

type forkOutput struct {
	Parent   string        `json:"parent"`
	Kind     string        `json:"kind" jsonschema:"memory: files, memory and processes were copied; files: files only"`
	Why      string        `json:"why,omitempty" jsonschema:"why only files were copied"`
	Children []sandboxView `json:"children,omitempty"`
	Errors   []string      `json:"errors,omitempty" jsonschema:"why there are fewer copies than requested"`
}

func (s *session) forkSandbox(ctx context.Context, _ *mcp.CallToolRequest, in forkInput) (*mcp.CallToolResult, forkOutput, error) {
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, forkOutput{}, err
	}
	defer b.Close()
	r, err := b.Fork(ctx, api.ForkSandbox{Count: in.Count, TTLMS: in.TTLSeconds * 1000, FilesOnly: in.FilesOnly})
	out := forkOutput{Parent: string(r.Parent), Kind: string(r.Kind), Why: r.Why}
	for _, c := range r.Children {
		if c.Sandbox != nil {
			out.Children = append(out.Children, viewOf(*c.Sandbox))
		} else if c.Error != nil {
			out.Errors = append(out.Errors, c.Error.Message)
		}
	}
	return nil, out, err
}

type sandboxInput struct {
	SandboxID string `json:"sandbox_id"`
}

type killOutput struct {
	SandboxID     string `json:"sandbox_id"`
	State         string `json:"state"`
	ProcessesLeft int    `json:"processes_left" jsonschema:"0 if the end of every process was proven"`
}

func (s *session) killSandbox(ctx context.Context, _ *mcp.CallToolRequest, in sandboxInput) (*mcp.CallToolResult, killOutput, error) {
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, killOutput{}, err
	}
	defer b.Close()
	k, err := b.Kill(ctx)
	return nil, killOutput{string(k.Sandbox.ID), string(k.Sandbox.State), k.Proof.Left}, err
}

type previewInput struct {
	SandboxID string `json:"sandbox_id"`
	Port      int    `json:"port" jsonschema:"Port on which the program listens, 1 to 65535"`
}

type previewOutput struct {
	URL       string `json:"url,omitempty" jsonschema:"missing if the daemon does not serve over TCP"`
	Listening bool   `json:"listening" jsonschema:"false if no program listens on the port yet"`
	Private   bool   `json:"private,omitempty" jsonschema:"true if requests need the traffic token of the sandbox"`
	Forward   string `json:"forward" jsonschema:"command for the user that forwards a port of the user's machine to it"`
}

func (s *session) previewURL(ctx context.Context, _ *mcp.CallToolRequest, in previewInput) (*mcp.CallToolResult, previewOutput, error) {
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, previewOutput{}, err
	}
	defer b.Close()
	row, err := b.Info(ctx)
	if err != nil {
		return nil, previewOutput{}, err
	}
	conn, err := b.Dial(ctx, in.Port)
	if err == nil {
		conn.Close()
	} else if api.KindOf(err) != api.KindUnavailable {
		return nil, previewOutput{}, err
	}
	out := previewOutput{Listening: err == nil, Private: row.PrivateTraffic, Forward: fmt.Sprintf("hortus sandbox forward %s %d", row.ID, in.Port)}
	base := s.base
	if base == "" {
		info, err := s.client.Info(ctx)
		if err != nil {
			return nil, out, err
		}
		base = info.URL
	}
	out.URL = portURL(base, row.ID, in.Port)
	return nil, out, nil
}

// portURL is where a port is at a daemon's URL. Below an address there are no names: browsers resolve those below localhost to
// their own machine.
func portURL(base string, id api.SandboxID, port int) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return ""
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsLoopback() {
			return ""
		}
		host = "localhost"
	}
	host = strconv.Itoa(port) + "-" + string(id) + "." + host
	if p := u.Port(); p != "" {
		host += ":" + p
	}
	u.Host = host
	u.Path = "/"
	return u.String()
}
