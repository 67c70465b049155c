package payload

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// Event is what a request is about: a new comment on an issue, or labels that an issue got.
type Event struct {
	// Ignored is why it can start nothing, whatever the settings are; the other fields are then empty.
	Ignored string
	// Repository is OWNER/NAME.
	Repository string
	Sender     Person
	// Issue is the number of the issue, Title and Body its texts, Author the login of who wrote them.
	Issue       int
	Title, Body string
	Author      string
	// Comment is the ID of the comment and Text what it says; 0 for labels.
	Comment int64
	Text    string
	// Labels are those that were added. If the forge does not say which were, they are all labels of the issue, and Unsure is true.
	Labels []string
	Unsure bool
	// At is when it happened; zero if that cannot be read.
	At time.Time
}

// Person is an account of the forge.
type Person struct {
	ID    int64
	Login string
	// Bot is true for an account of a program, if the forge says so.
	Bot bool
}

// Cause identifies what the event is about: the comment, or the issue with a label at a time. A forge that sends an event again sends the
// same cause. GitHub does not sign its delivery's ID, so that is no part of it.
func (e Event) Cause(label string) string {
	switch {
	case e.Comment != 0:
		return fmt.Sprintf("comment %d", e.Comment)
	case e.Unsure: // another label may have been added, so the label counts once for the issue
		return fmt.Sprintf("issue %d label %s", e.Issue, label)
	}
	return fmt.Sprintf("issue %d label %s at %s", e.Issue, label, e.At.UTC().Format(time.RFC3339Nano))
}

// Has reports whether a label is among those of the event.
func (e Event) Has(label string) bool { return label != "" && slices.Contains(e.Labels, label) }

// Parse reads a request that was verified. The error is KindInvalid for one that has not the form of the forge.
func Parse(kind string, h http.Header, body []byte) (Event, error) {
	if t, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || t != "application/json" {
		return Event{}, api.Errorf(api.KindInvalid, "the content type of the webhook is %.60q", h.Get("Content-Type")).WithHint("Select application/json for the webhook at the forge.")
	}
	var e Event
	var err error
	switch kind {
	case forge.GitHub:
		e, err = hub(only(h, "X-Github-Event"), body)
	case forge.Gitea:
		e, err = hub(only(h, "X-Gitea-Event"), body)
	case forge.GitLab:
		e, err = lab(only(h, "X-Gitlab-Event"), body)
	default:
		err = api.Errorf(api.KindInvalid, "%.40q is no kind of forge", kind)
	}
	if err != nil || e.Ignored != "" {
		return e, err
	}
	if e.Repository == "" || e.Issue <= 0 || e.Sender.Login == "" || e.Sender.ID <= 0 || e.At.IsZero() || e.Comment < 0 {
		return Event{}, api.Errorf(api.KindInvalid, "the event has no repository, issue, sender or time")
	}
	return e, nil
}

func ignored(format string, args ...any) (Event, error) {
	return Event{Ignored: fmt.Sprintf(format, args...)}, nil
}

func decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return api.Errorf(api.KindInvalid, "the event cannot be read as JSON")
	}
	return nil
}

// hubUser is an account at GitHub and Gitea.
type hubUser struct {
	ID          int64
	Login, Type string
}

// hub reads an event of GitHub and of Gitea. Gitea calls the added label label_updated, and newer versions say which it was.
func hub(name string, body []byte) (Event, error) {
	if name != "issue_comment" && name != "issues" && name != "issue_label" {
		return ignored("events of the kind %.40q start nothing", name)
	}
	type label struct{ Name string }
	var p struct {
		Action string
		Issue  struct {
			Number      int
			Title, Body string
			User        hubUser
			Labels      []label
			Updated     time.Time       `json:"updated_at"`
			Pull        json.RawMessage `json:"pull_request"`
		}
		IsPull  bool `json:"is_pull"`
		Comment struct {
			ID      int64
			Body    string
			User    hubUser
			Created time.Time `json:"created_at"`
		}
		Label   label
		Changes struct {
			Added []label `json:"added_labels"`
			// Removed is here to tell an event that only removes from one that says nothing.
			Removed []label `json:"removed_labels"`
		}
		Repository struct {
			FullName string `json:"full_name"`
		}
		Sender hubUser
	}
	if err := decode(body, &p); err != nil {
		return Event{}, err
	}
	e := Event{
		Repository: p.Repository.FullName, Issue: p.Issue.Number, Title: p.Issue.Title, Body: p.Issue.Body, Author: p.Issue.User.Login,
		Sender: Person{p.Sender.ID, p.Sender.Login, p.Sender.Type == "Bot"},
	}
	if p.IsPull || len(p.Issue.Pull) > 0 && string(p.Issue.Pull) != "null" {
		return ignored("events of merge requests start nothing")
	}
	names := func(all []label) (out []string) {
		for _, l := range all {
			out = append(out, l.Name)
		}
		return out
	}
	switch {
	case name == "issue_comment" && p.Action == "created":
		if p.Comment.ID <= 0 || p.Comment.User.ID != p.Sender.ID {
			return Event{}, api.Errorf(api.KindInvalid, "the comment has no ID, or was not written by the sender of the event")
		}
		e.Comment, e.Text, e.At = p.Comment.ID, p.Comment.Body, p.Comment.Created
	case name == "issue_comment":
		return ignored("only new comments start something; this one was %.20s", p.Action)
	case p.Action == "labeled":
		e.Labels, e.At = []string{p.Label.Name}, p.Issue.Updated
	case p.Action == "label_updated" && len(p.Changes.Added)+len(p.Changes.Removed) > 0:
		e.Labels, e.At = names(p.Changes.Added), p.Issue.Updated
	case p.Action == "label_updated":
		e.Labels, e.At, e.Unsure = names(p.Issue.Labels), p.Issue.Updated, true
	default:
		return ignored("only new labels and comments of issues start something; this is %.20s", p.Action)
	}
	return e, nil
}

// instant is a time in one of the forms of GitLab.
type instant struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. A time in another form is the zero time.
func (t *instant) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"} {
		if at, err := time.Parse(form, s); err == nil {
			t.Time = at
			break
		}
	}
	return nil
}

// lab reads an event of GitLab.
func lab(name string, body []byte) (Event, error) {
	if name != "Note Hook" && name != "Issue Hook" {
		return ignored("events of the kind %.40q start nothing", name)
	}
	type label struct{ Title string }
	var p struct {
		Type string `json:"event_type"`
		User struct {
			ID       int64
			Username string
		}
		Project struct {
			Path string `json:"path_with_namespace"`
		}
		Object struct {
			ID                    int64
			IID                   int `json:"iid"`
			Title, Description    string
			Note, Action          string
			NoteableType          string `json:"noteable_type"`
			System                bool
			Confidential, Private bool
			Internal              bool
			AuthorID              int64   `json:"author_id"`
			Created               instant `json:"created_at"`
			Updated               instant `json:"updated_at"`
		} `json:"object_attributes"`
		Issue struct {
			IID                int `json:"iid"`
			Title, Description string
			Confidential       bool
		}
		Labels  []label
		Changes struct {
			Labels struct{ Previous, Current []label }
		}
	}
	if err := decode(body, &p); err != nil {
		return Event{}, err
	}
	o := p.Object
	e := Event{Repository: p.Project.Path, Sender: Person{ID: p.User.ID, Login: p.User.Username}}
	if strings.HasPrefix(p.Type, "confidential") || o.Confidential || o.Internal || p.Issue.Confidential {
		return ignored("confidential issues and internal comments start nothing: a merge request shows what was asked for")
	}
	if name == "Note Hook" {
		switch {
		case o.NoteableType != "Issue" || o.System:
			return ignored("only comments that people write on issues start something")
		case o.Action != "" && o.Action != "create", o.Action == "" && !o.Created.Equal(o.Updated.Time):
			return ignored("only new comments start something; this one was %.20s", o.Action)
		case o.ID <= 0 || o.AuthorID != p.User.ID:
			return Event{}, api.Errorf(api.KindInvalid, "the comment has no ID, or was not written by the sender of the event")
		}
		e.Issue, e.Title, e.Body = p.Issue.IID, p.Issue.Title, p.Issue.Description
		e.Comment, e.Text, e.At = o.ID, o.Note, o.Created.Time
		return e, nil
	}
	e.Issue, e.Title, e.Body, e.At = o.IID, o.Title, o.Description, o.Updated.Time
	if o.AuthorID == p.User.ID {
		e.Author = p.User.Username // GitLab sends no other login
	}
	before := p.Changes.Labels.Previous
	switch o.Action {
	case "open":
		p.Changes.Labels.Current, before = p.Labels, nil
	case "update":
	default:
		return ignored("only new labels and comments of issues start something; this is %.20s", o.Action)
	}
	for _, l := range p.Changes.Labels.Current {
		if !slices.Contains(before, l) {
			e.Labels = append(e.Labels, l.Title)
		}
	}
	return e, nil
}
