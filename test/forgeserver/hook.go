package forgeserver

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is something that a forge tells webhooks: a comment on an issue, or a label of one.
type Event struct {
	Repository string
	Issue      int
	// Title, Body and Author are those of the issue.
	Title, Body, Author string
	// Sender is who did it. Bot is true for an account of a program, where the forge says so.
	Sender string
	Bot    bool
	// SenderID is the ID of the sender's account; 0 for that of the account which has the login now.
	SenderID int
	// Comment is the ID of a comment and Text what it says; 0 for a label. Action is what happened to it: "created" (default), "edited" or
	// "deleted".
	Comment int64
	Text    string
	Action  string
	// Label was added; Removed, if set, was removed. Old leaves out which label was added, as older versions of Gitea do.
	Label, Removed string
	Old            bool
	// Pull is true for a merge request in the place of an issue, Confidential for what not everybody may see.
	Pull, Confidential bool
	At                 time.Time
}

// Delivery is the request that a forge sends to a webhook.
type Delivery struct {
	Header http.Header
	Body   []byte
}

// Post sends a delivery.
func (d Delivery) Post(url string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	r.Header = d.Header.Clone()
	return http.DefaultClient.Do(r)
}

// Delivery returns the request that a forge of a kind sends for an event, signed with a secret. GitLab signs with a signing token if
// token is true.
func (e Event) Delivery(kind, secret string, token bool) Delivery {
	if e.Action == "" {
		e.Action = "created"
	}
	h := http.Header{"Content-Type": {"application/json"}}
	body := e.hub(kind)
	if kind == GitLab {
		body = e.lab()
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // impossible: an object of strings
	}
	switch kind {
	case GitHub:
		h.Set("X-GitHub-Event", e.name())
		h.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
		h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum([]byte(secret), b)))
	case Gitea:
		h.Set("X-Gitea-Event", e.name())
		h.Set("X-Gitea-Signature", hex.EncodeToString(sum([]byte(secret), b)))
	case GitLab:
		name := map[bool]string{true: "Note Hook", false: "Issue Hook"}[e.Comment != 0]
		if e.Confidential {
			name = "Confidential " + name
		}
		h.Set("X-Gitlab-Event", name)
		if !token {
			h.Set("X-Gitlab-Token", secret)
			break
		}
		id, at := "f5e5f430-f57b-4e6e-9fac-d9128cd7232f", strconv.FormatInt(time.Now().Unix(), 10)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			panic(err) // not a signing token
		}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", at)
		h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(sum(key, []byte(id+"."+at+"."), b)))
	}
	return Delivery{h, b}
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

func (e Event) id() int { return cmp.Or(e.SenderID, accountID(e.Sender)) }

func (e Event) name() string {
	if e.Comment != 0 {
		return "issue_comment"
	}
	return "issues"
}

// hub is an event of GitHub and of Gitea.
func (e Event) hub(kind string) object {
	user := func(login string, bot bool) object {
		o := object{"id": accountID(login), "login": login}
		if login == e.Sender {
			o["id"] = e.id()
		}
		if kind == GitHub {
			o["type"] = map[bool]string{true: "Bot", false: "User"}[bot]
		}
		return o
	}
	at := e.At.UTC().Format(time.RFC3339)
	label := func(name string) object { return object{"id": 208045946, "name": name, "color": "fc2929"} }
	issue := object{"number": e.Issue, "title": e.Title, "body": e.Body, "user": user(e.Author, false), "labels": []object{}, "updated_at": at}
	if e.Label != "" {
		issue["labels"] = []object{label(e.Label)}
	}
	if e.Pull {
		issue["pull_request"] = object{"url": "https://api.example.org/pulls/1"}
	}
	o := object{"action": e.Action, "issue": issue, "repository": object{"id": 1296269, "full_name": e.Repository}, "sender": user(e.Sender, e.Bot)}
	switch {
	case e.Comment != 0:
		o["comment"] = object{"id": e.Comment, "body": e.Text, "user": user(e.Sender, e.Bot), "created_at": at, "updated_at": at}
	case kind == GitHub && e.Removed != "":
		o["action"], o["label"] = "unlabeled", label(e.Removed)
	case kind == GitHub:
		o["action"], o["label"] = "labeled", label(e.Label)
	default:
		o["action"] = "label_updated"
		changes := object{}
		if e.Removed != "" {
			changes["removed_labels"] = []object{label(e.Removed)}
		} else if e.Label != "" {
			changes["added_labels"] = []object{label(e.Label)}
		}
		if !e.Old {
			o["changes"] = changes
		}
	}
	if kind == Gitea {
		o["is_pull"] = e.Pull
	}
	return o
}

// lab is an event of GitLab.
func (e Event) lab() object {
	at := e.At.UTC().Format("2006-01-02 15:04:05 MST")
	project := object{"id": 5, "path_with_namespace": e.Repository}
	user := object{"id": e.id(), "username": e.Sender, "name": e.Sender}
	typ := func(name string) string {
		if e.Confidential {
			return "confidential_" + name
		}
		return name
	}
	issue := object{"id": 301, "iid": e.Issue, "title": e.Title, "description": e.Body, "confidential": e.Confidential}
	if e.Comment != 0 {
		of := "Issue"
		if e.Pull {
			of = "MergeRequest"
		}
		action := map[string]string{"created": "create", "edited": "update", "deleted": "delete"}[e.Action]
		return object{
			"object_kind": "note", "event_type": typ("note"), "user": user, "project": project, "issue": issue,
			"object_attributes": object{"id": e.Comment, "note": e.Text, "noteable_type": of, "author_id": e.id(), "system": false, "action": action, "created_at": at, "updated_at": at},
		}
	}
	labels := func(names ...string) (out []object) {
		out = []object{}
		for _, n := range names {
			if n != "" {
				out = append(out, object{"id": 206, "title": n, "color": "#ffffff"})
			}
		}
		return out
	}
	issue["action"], issue["author_id"], issue["updated_at"] = "update", accountID(e.Author), at
	return object{
		"object_kind": "issue", "event_type": typ("issue"), "user": user, "project": project, "object_attributes": issue, "labels": labels(e.Label),
		"changes": object{"labels": object{"previous": labels("kept", e.Removed), "current": labels("kept", e.Label)}},
	}
}

// String is for failures of tests.
func (e Event) String() string {
	return fmt.Sprintf("%s of %s on issue %d", e.name(), e.Sender, e.Issue)
}
