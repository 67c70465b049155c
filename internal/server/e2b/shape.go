package e2b

import (
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"hortus.dev/api"
)

// sandboxAnswer is a sandbox that was made or connected to.
type sandboxAnswer struct {
	SandboxID   string `json:"sandboxID"`
	TemplateID  string `json:"templateID"`
	ClientID    string `json:"clientID"` // required of the wire, and of no use
	EnvdVersion string `json:"envdVersion"`
	EnvdToken   string `json:"envdAccessToken"`
	// TrafficToken is null where ports need none.
	TrafficToken *string `json:"trafficAccessToken"`
	Domain       string  `json:"domain"`
}

// listRow is a sandbox in a list.
type listRow struct {
	SandboxID    string            `json:"sandboxID"`
	TemplateID   string            `json:"templateID"`
	ClientID     string            `json:"clientID"`
	StartedAt    time.Time         `json:"startedAt"`
	EndAt        time.Time         `json:"endAt"`
	State        api.SandboxState  `json:"state"`
	CPUCount     int               `json:"cpuCount"`
	MemoryMB     int64             `json:"memoryMB"`
	DiskSizeMB   int64             `json:"diskSizeMB"`
	EnvdVersion  string            `json:"envdVersion"`
	Metadata     map[string]string `json:"metadata"`
	VolumeMounts []struct{}        `json:"volumeMounts"`
}

// detail is all that is shown of one sandbox.
type detail struct {
	listRow
	EnvdToken string    `json:"envdAccessToken"`
	Domain    string    `json:"domain"`
	Network   network   `json:"network"`
	Lifecycle lifecycle `json:"lifecycle"`
	// Internet is what holds, whatever was requested.
	Internet bool `json:"allowInternetAccess"`
}

type network struct {
	PublicTraffic bool     `json:"allowPublicTraffic"`
	AllowOut      []string `json:"allowOut,omitempty"`
	DenyOut       []string `json:"denyOut,omitempty"`

	Rules wireRules `json:"rules,omitempty"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

// clientID is what every answer has as client: the word means nothing any more.
const clientID = "hortus"

// answers makes what is said of sandboxes.
type answers struct {
	catalog
	tokens Tokens
	host   string // Config.Domain
}

func (d answers) answerOf(r *http.Request, s api.Sandbox) sandboxAnswer {
	out := sandboxAnswer{
		SandboxID: string(s.ID), TemplateID: d.templateID(s), ClientID: clientID, EnvdVersion: EnvdVersion,
		EnvdToken: d.tokens.Envd(string(s.ID)), Domain: d.domain(r),
	}
	if s.PrivateTraffic {
		token := d.tokens.Traffic(string(s.ID))
		out.TrafficToken = &token
	}
	return out
}

func (d answers) listedOf(s api.Sandbox) listRow {
	out := listRow{
		SandboxID: string(s.ID), TemplateID: d.templateID(s), ClientID: clientID,
		StartedAt: s.CreatedAt.UTC(), EndAt: s.ExpiresAt.UTC(), State: s.State,
		CPUCount: cpuCount(s.Limits), MemoryMB: s.Limits.MemoryBytes >> 20, DiskSizeMB: s.Limits.DiskBytes >> 20,
		EnvdVersion: EnvdVersion, Metadata: s.Labels, VolumeMounts: []struct{}{},
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}

func (d answers) detailOf(r *http.Request, s api.Sandbox) detail {
	out := detail{
		listRow: d.listedOf(s), EnvdToken: d.tokens.Envd(string(s.ID)), Domain: d.domain(r),
		Network:   networkOf(s),
		Lifecycle: lifecycle{OnTimeout: "kill", AutoResume: s.AutoResume},
		Internet:  hasInternet(s),
	}
	if s.OnExpiry.Pauses() {
		out.Lifecycle.OnTimeout = "pause"
	}
	return out
}

// cpuCount is a share of processors in whole ones, as the wire has them.
func cpuCount(l api.Limits) int { return max(int(math.Ceil(l.CPUs)), 1) }

// domain is where ports of sandboxes are, for getHost of the SDKs: what the operator
// says, else what the client itself reached this server by. A browser resolves every
// name below localhost, and no program a name below an address.
func (d answers) domain(r *http.Request) string {
	if d.host != "" {
		return d.host
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, ""
	}
	host = strings.TrimPrefix(strings.ToLower(host), "api.") // E2B_DOMAIN makes api.DOMAIN of it
	if host == "" || len(host) > 253 || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || net.ParseIP(host) != nil {
		host = "localhost"
	}
	if port != "" && strings.Trim(port, "0123456789") == "" {
		return net.JoinHostPort(host, port)
	}
	return host
}
