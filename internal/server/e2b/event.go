package e2b

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Events is what the server asks of the caller's lifecycle events and webhooks. What is another account's
// fails with KindNotFound, or is not in a list. No method returns a secret.
type Events interface {
	Events(ctx context.Context, f api.LifecycleFilter) ([]api.LifecycleEvent, error)
	Create(ctx context.Context, w api.Webhook, secret string) (api.Webhook, error)
	// Update changes a webhook; secret "" keeps the one that it has.
	Update(ctx context.Context, id string, change func(*api.Webhook), secret string) (api.Webhook, error)
	Get(ctx context.Context, id string) (api.Webhook, error)
	List(ctx context.Context) ([]api.Webhook, error)
	Remove(ctx context.Context, id string) (api.Webhook, error)
	// Deliveries lists the last attempts, the newest first.
	Deliveries(ctx context.Context, id string) ([]api.WebhookDelivery, error)
}

// lifecycles serves requests about lifecycle events and webhooks.
type lifecycles struct {
	events Events
	names  catalog
}

func (d lifecycles) register(to *router) {
	to.handle("GET /events/sandboxes", d.list, "offset", "limit", "orderAsc", "types*")
	to.handle("GET /events/sandboxes/{id}", d.list, "offset", "limit", "orderAsc", "types*")
	to.handle("GET /events/webhooks", d.webhooks)
	to.handle("POST /events/webhooks", d.create)
	to.handle("GET /events/webhooks/{id}", d.webhook(d.events.Get))
	to.handle("DELETE /events/webhooks/{id}", d.webhook(d.events.Remove))
	to.handle("PATCH /events/webhooks/{id}", d.update)
	to.handle("GET /events/webhooks/{id}/deliveries", d.deliveries)
}

// typePrefix begins the types of events on the wire.
const typePrefix = "sandbox.lifecycle."

// lifecycleTypes reads types of events.
func lifecycleTypes(option string, raw []string) ([]api.LifecycleType, error) {
	var out []api.LifecycleType
	for _, name := range raw {
		short, ok := strings.CutPrefix(name, typePrefix)
		if t := api.LifecycleType(short); ok && slices.Contains(api.LifecycleTypes(), t) {
			out = append(out, t)
			continue
		}
		return nil, api.Errorf(api.KindInvalid, "%s: %.60q is not a type of lifecycle events", option, name).
			WithHint("use %screated, updated, paused, resumed or killed", typePrefix)
	}
	return out, nil
}

// wireEvent is an event in a list, and sentEvent one that is sent to a webhook: the wire has two forms.
type wireEvent struct {
	Version     string         `json:"version"`
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Timestamp   time.Time      `json:"timestamp"`
	Data        map[string]any `json:"eventData"`
	SandboxID   string         `json:"sandboxId"`
	ExecutionID string         `json:"sandboxExecutionId"`
	TemplateID  string         `json:"sandboxTemplateId"`
	BuildID     string         `json:"sandboxBuildId"`
	TeamID      string         `json:"sandboxTeamId"`
}

type sentEvent struct {
	Version     string         `json:"version"`
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Timestamp   time.Time      `json:"timestamp"`
	Category    string         `json:"event_category"`
	Label       string         `json:"event_label"`
	Data        map[string]any `json:"event_data"`
	SandboxID   string         `json:"sandbox_id"`
	ExecutionID string         `json:"sandbox_execution_id"`
	TemplateID  string         `json:"sandbox_template_id"`
	BuildID     string         `json:"sandbox_build_id"`
	TeamID      string         `json:"sandbox_team_id"`
}

// eventOf returns an event as lists have it. Its ID follows from the event, so that it is the same in
// every delivery and in every list.
func (d catalog) eventOf(e api.LifecycleEvent) (wireEvent, error) {
	labels := e.Sandbox.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	data := map[string]any{"sandbox_metadata": labels}
	switch e.Type {
	case api.LifecycleUpdated:
		var u api.UpdatedEvent
		if err := json.Unmarshal(e.Data, &u); err != nil {
			return wireEvent{}, api.Errorf(api.KindInternal, "read event %d of sandbox %s: %w", e.Number, e.Sandbox.ID, err)
		}
		data["set_timeout"] = u.ExpiresAt.UTC()
	case api.LifecycleKilled:
		var s api.SandboxStateEvent
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return wireEvent{}, api.Errorf(api.KindInternal, "read event %d of sandbox %s: %w", e.Number, e.Sandbox.ID, err)
		}
		if s.Reason != "" {
			data["reason"] = s.Reason
		}
	}
	b := sha256.Sum256(fmt.Appendf(nil, "lifecycle %s %d", e.Sandbox.ID, e.Number))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // a UUID of version 8, which is anybody's own
	return wireEvent{
		Version: "v1", ID: fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]), Type: typePrefix + string(e.Type),
		Timestamp: e.At.UTC(), Data: data, SandboxID: string(e.Sandbox.ID), ExecutionID: string(e.Sandbox.ID),
		TemplateID: d.templateID(e.Sandbox), TeamID: e.Sandbox.Account,
	}, nil
}

// EncodeEvent returns an event as it is sent to a webhook.
func EncodeEvent(e api.LifecycleEvent) ([]byte, error) {
	w, err := catalog{aliases: DefaultAliases()}.eventOf(e)
	if err != nil {
		return nil, err
	}
	labels := map[api.LifecycleType]string{
		api.LifecycleCreated: "create", api.LifecycleUpdated: "update", api.LifecyclePaused: "pause", api.LifecycleResumed: "resume", api.LifecycleKilled: "kill",
	}
	return json.Marshal(sentEvent{
		Version: "v2", ID: w.ID, Type: w.Type, Timestamp: w.Timestamp, Category: "lifecycle", Label: labels[e.Type], Data: w.Data,
		SandboxID: w.SandboxID, ExecutionID: w.ExecutionID, TemplateID: w.TemplateID, BuildID: w.BuildID, TeamID: w.TeamID,
	})
}

// maxOffset bounds how many events a list leaves out.
const maxOffset = 1_000_000

// list lists events of all sandboxes of the account, or of one. Another account's sandbox has none.
func (d lifecycles) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	id := api.SandboxID(r.PathValue("id"))
	if id != "" && !id.Valid() {
		return noSandbox(id)
	}
	offset, err := number(q, "offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", 10, 1, maxPage)
	if err != nil {
		return err
	}
	ascending := false
	if raw := q.Get("orderAsc"); raw != "" {
		if ascending, err = strconv.ParseBool(raw); err != nil {
			return api.Errorf(api.KindInvalid, `parameter "orderAsc": %.20q is neither true nor false`, raw)
		}
	}
	types, err := lifecycleTypes(`parameter "types"`, words(q, "types"))
	if err != nil {
		return err
	}
	all, err := d.events.Events(r.Context(), api.LifecycleFilter{Sandbox: id, Types: types, Ascending: ascending, Offset: int(offset), Limit: int(limit)})
	if err != nil {
		return err
	}
	out := make([]wireEvent, len(all))
	for i, e := range all {
		if out[i], err = d.names.eventOf(e); err != nil {
			return err
		}
	}
	return answer(w, http.StatusOK, out)
}

// wireWebhook is a webhook as the wire has it.
type wireWebhook struct {
	ID        string    `json:"id"`
	TeamID    string    `json:"teamId"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Enabled   bool      `json:"enabled"`
	URL       string    `json:"url"`
	Events    []string  `json:"events"`
}

func webhookRow(w api.Webhook) wireWebhook {
	out := wireWebhook{ID: w.ID, TeamID: w.Account, Name: w.Name, CreatedAt: w.CreatedAt.UTC(), Enabled: w.Enabled, URL: w.URL, Events: []string{}}
	for _, e := range w.Events {
		out.Events = append(out.Events, typePrefix+string(e))
	}
	return out
}

// webhookOptions are what clients say about a webhook; what a change omits stays.
type webhookOptions struct {
	Name            *string   `json:"name"`
	URL             *string   `json:"url"`
	Enabled         *bool     `json:"enabled"`
	Events          *[]string `json:"events"`
	SignatureSecret *string   `json:"signatureSecret"`
}

// String keeps the secret out of what is logged.
func (webhookOptions) String() string { return "webhook" }

// read reads options, and returns what they change.
func (o *webhookOptions) read(w http.ResponseWriter, r *http.Request) (change func(*api.Webhook), secret string, err error) {
	if err := decode(w, r, o); err != nil {
		return nil, "", err
	}
	var types []api.LifecycleType
	if o.Events != nil {
		if types, err = lifecycleTypes(`option "events"`, *o.Events); err != nil {
			return nil, "", err
		}
	}
	if o.SignatureSecret != nil {
		if secret = *o.SignatureSecret; secret == "" {
			return nil, "", api.Errorf(api.KindInvalid, `option "signatureSecret" is empty: every delivery is signed`)
		}
	}
	return func(h *api.Webhook) {
		if o.Name != nil {
			h.Name = *o.Name
		}
		if o.URL != nil {
			h.URL = *o.URL
		}
		if o.Enabled != nil {
			h.Enabled = *o.Enabled
		}
		if o.Events != nil {
			h.Events = types
		}
	}, secret, nil
}

func (d lifecycles) create(w http.ResponseWriter, r *http.Request) error {
	change, secret, err := new(webhookOptions).read(w, r)
	if err != nil {
		return err
	}
	h := api.Webhook{Enabled: true}
	change(&h)
	if h, err = d.events.Create(r.Context(), h, secret); err != nil {
		return err
	}
	return answer(w, http.StatusCreated, webhookRow(h))
}

func (d lifecycles) update(w http.ResponseWriter, r *http.Request) error {
	change, secret, err := new(webhookOptions).read(w, r)
	if err != nil {
		return err
	}
	h, err := d.events.Update(r.Context(), r.PathValue("id"), change, secret)
	if err != nil {
		return noWebhook(r, err)
	}
	return answer(w, http.StatusOK, webhookRow(h))
}

// webhook answers with the webhook that a call returns.
func (d lifecycles) webhook(call func(context.Context, string) (api.Webhook, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h, err := call(r.Context(), r.PathValue("id"))
		if err != nil {
			return noWebhook(r, err)
		}
		return answer(w, http.StatusOK, webhookRow(h))
	}
}

// noWebhook is what is said of every webhook that the caller cannot have.
func noWebhook(r *http.Request, err error) error {
	if api.KindOf(err) == api.KindNotFound {
		return api.Errorf(api.KindNotFound, "webhook %.40q was not found", r.PathValue("id"))
	}
	return err
}

func (d lifecycles) webhooks(w http.ResponseWriter, r *http.Request) error {
	all, err := d.events.List(r.Context())
	if err != nil {
		return err
	}
	out := make([]wireWebhook, len(all))
	for i, h := range all {
		out[i] = webhookRow(h)
	}
	return answer(w, http.StatusOK, out)
}

// wireDelivery is an attempt to deliver an event.
type wireDelivery struct {
	ID         string    `json:"id"`
	EventType  string    `json:"eventType"`
	SandboxID  string    `json:"sandboxId"`
	Attempt    int       `json:"attempt"`
	Timestamp  time.Time `json:"timestamp"`
	DurationMS int64     `json:"durationMs"`
	// Delivered and GivenUp are both false if there will be another attempt.
	Delivered bool   `json:"delivered"`
	GivenUp   bool   `json:"givenUp"`
	Status    int    `json:"responseStatus,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (d lifecycles) deliveries(w http.ResponseWriter, r *http.Request) error {
	all, err := d.events.Deliveries(r.Context(), r.PathValue("id"))
	if err != nil {
		return noWebhook(r, err)
	}
	out := make([]wireDelivery, len(all))
	for i, v := range all {
		out[i] = wireDelivery{
			ID: v.ID, EventType: typePrefix + string(v.Type), SandboxID: string(v.Sandbox), Attempt: v.Attempt, Timestamp: v.At.UTC(), DurationMS: v.MS,
			Delivered: v.Error == "", GivenUp: v.Last && v.Error != "", Status: v.Status, Error: v.Error,
		}
	}
	return answer(w, http.StatusOK, out)
}
