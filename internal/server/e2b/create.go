package e2b

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

// newSandbox is what a client asks for. What is a pointer or raw tells nothing from
// something that is empty.
type newSandbox struct {
	TemplateID     string            `json:"templateID"`
	Timeout        *int64            `json:"timeout"`
	Metadata       map[string]string `json:"metadata"`
	EnvVars        map[string]string `json:"envVars"`
	Secure         *bool             `json:"secure"` // of the first generation
	InternetAccess *bool             `json:"allow_internet_access"`
	AutoPause      *bool             `json:"autoPause"`
	AutoPauseMem   *bool             `json:"autoPauseMemory"`
	AutoResume     *autoResume       `json:"autoResume"`
	Network        *networkConfig    `json:"network"`
	IAM            json.RawMessage   `json:"iam"`
	VolumeMounts   []json.RawMessage `json:"volumeMounts"`
	MCP            json.RawMessage   `json:"mcp"`
}

type autoResume struct {
	Enabled bool `json:"enabled"`
}

// Seconds that a sandbox lives whose client does not say, by the generation of the
// path.
const (
	defaultTimeout = 300
	legacyTimeout  = 15
)

// placed has a node with capacity make a sandbox.
func (d sandboxes) placed(to *router, h handler) handler {
	return placed(d.forward, to, h, func(body []byte) forward.Need {
		var in newSandbox
		_ = json.Unmarshal(body, &in) // what cannot be read, the handler refuses
		req, _ := d.request(in, true)
		if req.Template == api.HostTemplate {
			req.Template = ""
		}
		return forward.Need{Kind: forward.Sandbox, Template: req.Template, Memory: req.Limits.MemoryBytes}
	})
}

// placed has a node make what a request needs.
func placed(f *forward.Forwarder, to *router, h handler, need func(body []byte) forward.Need) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return f.Place(w, r, forward.DoorE2B, need, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				to.fail(w, r, err)
			}
		}))
	}
}

// create makes a sandbox. The first generation of the path is legacy.
func (d sandboxes) create(legacy bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in newSandbox
		err := decode(w, r, &in)
		var s api.Sandbox
		if err == nil {
			s, err = d.make(r, in, legacy)
		}
		if err != nil {
			return err
		}
		return answer(w, http.StatusCreated, d.answerOf(r, s))
	}
}

func (d sandboxes) make(r *http.Request, in newSandbox, legacy bool) (api.Sandbox, error) {
	req, err := d.request(in, legacy)
	if err != nil {
		return api.Sandbox{}, err
	}
	if api.SnapshotID(req.Template).Valid() {
		// One that was removed, or is a pause of some sandbox, is no template.
		if _, err := d.find(r, in.TemplateID); err != nil {
			return api.Sandbox{}, err
		}
	}
	asked := in.Network.egress()
	// An SDK before 2.51 says that the internet be open whether or not its user said
	// so: there the word asks for the default. getInfo says what holds.
	if in.InternetAccess != nil && !(legacy && *in.InternetAccess) {
		asked.Internet = in.InternetAccess
	}
	if req.Egress, err = d.egressOf(r.Context(), req, asked); err != nil {
		return api.Sandbox{}, withRules(req.Headers, d.explain(req, err))
	}
	s, err := d.Sandboxes.Create(r.Context(), req)
	return s, withRules(req.Headers, withEgress(asked.option(), d.explain(req, err)))
}

// explain names the option that could not be honoured.
func (d sandboxes) explain(req api.CreateSandbox, err error) error {
	switch {
	case req.OnExpiry == api.ExpiryPause:
		return withOption("autoPause", err)
	case req.OnExpiry == api.ExpiryPauseFiles:
		return withOption("autoPauseMemory", err)
	}
	return err
}

// request turns what a client asks for into what Hortus makes, or says which option
// it has not got.
func (d sandboxes) request(in newSandbox, legacy bool) (api.CreateSandbox, error) {
	req := api.CreateSandbox{Env: in.EnvVars, Labels: in.Metadata}
	var err error
	if in.TemplateID == "" {
		return req, api.Errorf(api.KindInvalid, `option "templateID" is missing`)
	}
	if req.Template, err = d.template(in.TemplateID); err != nil {
		return req, err
	}
	if req.Template == api.HostTemplate {
		req.Limits = d.limits
	}
	byDefault := int64(defaultTimeout)
	if legacy {
		byDefault = legacyTimeout
	}
	if req.TTLMS, err = milliseconds(in.Timeout, byDefault); err != nil {
		return req, err
	}
	if err := checkMetadata(in.Metadata); err != nil {
		return req, err
	}
	if err := readLimits(in.Metadata, &req.Limits); err != nil {
		return req, err
	}
	switch {
	case in.Secure != nil && !legacy:
		return req, api.Errorf(api.KindInvalid, `unknown option "secure"`)
	case in.Secure != nil && !*in.Secure:
		return req, refused("secure", "the data plane of a sandbox always needs its access token")
	case isSet(in.IAM):
		return req, refused("iam", "workload identity is not supported")
	case isSet(in.MCP):
		return req, refused("mcp", "MCP servers are not supported")
	case len(in.VolumeMounts) > 0:
		return req, refused("volumeMounts", "a volume cannot be mounted into a sandbox here; its files can be read and written with the methods of Volume")
	}
	if err := in.Network.check(); err != nil {
		return req, err
	}
	if req.Headers, err = in.Network.egress().Rules.headers(); err != nil {
		return req, err
	}
	req.PrivateTraffic = in.Network != nil && in.Network.PublicTraffic != nil && !*in.Network.PublicTraffic
	if in.AutoPause != nil && *in.AutoPause {
		req.OnExpiry = api.ExpiryPause
		if in.AutoPauseMem != nil && !*in.AutoPauseMem {
			req.OnExpiry = api.ExpiryPauseFiles
		}
	}
	req.AutoResume = in.AutoResume != nil && in.AutoResume.Enabled
	if req.AutoResume && req.OnExpiry == api.ExpiryPauseFiles {
		return req, api.Errorf(api.KindInvalid, `option "autoResume" and "autoPauseMemory": false exclude each other: a sandbox that was paused without its memory must be resumed by a request`)
	}
	return req, nil
}

// isSet reports whether an option is present and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// milliseconds reads a timeout in seconds.
func milliseconds(seconds *int64, byDefault int64) (int64, error) {
	n := byDefault
	if seconds != nil {
		n = *seconds
	}
	if most := int64(api.MaxTTL.Seconds()); n <= 0 || n > most {
		return 0, api.Errorf(api.KindInvalid, `option "timeout": %d seconds is not between 1 and %d`, n, most)
	}
	return n * 1000, nil
}

// checkMetadata names the option in what is wrong with metadata.
func checkMetadata(m map[string]string) error {
	if err := api.CheckLabels(m); err != nil {
		return api.Errorf(api.KindInvalid, `option "metadata": %w`, err).WithHint("%s", api.HintOf(err))
	}
	return nil
}

// limitPrefix begins the keys of metadata that set limits: the wire has no options for them.
const limitPrefix = "hortus."

// readLimits reads the limits that metadata sets: hortus.memory and hortus.disk in MiB, hortus.cpus.
func readLimits(metadata map[string]string, l *api.Limits) error {
	for key, value := range metadata {
		name, ours := strings.CutPrefix(key, limitPrefix)
		if !ours {
			continue
		}
		bad := func(want string) error {
			return api.Errorf(api.KindInvalid, "option \"metadata\": %.80s: %.40q is not %s", key, value, want)
		}
		const most = 1 << 24 // MiB
		switch name {
		case "memory", "disk":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 || n > most {
				return bad("a number of MiB such as 2048")
			}
			if name == "memory" {
				l.MemoryBytes = n << 20
			} else {
				l.DiskBytes = n << 20
			}
		case "cpus":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || !(n > 0 && n <= 4096) {
				return bad("a number of processors such as 2 or 0.5")
			}
			l.CPUs = n
		default:
			return api.Errorf(api.KindInvalid, "option \"metadata\": unknown key %.80q: keys that begin with %s are hortus.memory, hortus.disk and hortus.cpus", key, limitPrefix)
		}
	}
	return nil
}
