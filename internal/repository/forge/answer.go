package forge

import (
	"cmp"
	"fmt"
	"strings"

	"hortus.dev/api"
)

// Sizes of comments in bytes of Markdown.
const (
	showAsked = 3_000
	showWhy   = 600
)

// AnswerMarker is the end of each comment that Hortus writes on an issue.
const AnswerMarker = "<!-- written by hortus -->"

// Answered reports whether Hortus wrote a comment.
func Answered(comment string) bool { return strings.Contains(comment, AnswerMarker) }

// TaskStarted is the comment that a task was started. It shows the whole request, so that nothing in it is hidden. page is the address of
// the task in the console; empty for none.
func TaskStarted(task api.TaskID, page, sender, request string) string {
	return fmt.Sprintf("Hortus works on this: task %s, asked for by %s. The request:\n\n%s\n%s", taskLink(task, page), inline(sender, 100), quote(request, showAsked), AnswerMarker)
}

// TaskEnded is the comment that a task has ended.
func TaskEnded(t api.Task, page string) string {
	var b strings.Builder
	task := taskLink(t.ID, page)
	var delivery api.Delivery
	if t.Repo != nil && t.Repo.Delivery != nil {
		delivery = *t.Repo.Delivery
	}
	switch {
	case t.Outcome == api.OutcomeVerified && delivery.URL != "":
		fmt.Fprintf(&b, "Done: %s. The result is verified (task %s).\n", delivery.URL, task)
	case t.Outcome == api.OutcomeVerified && delivery.Error != nil:
		fmt.Fprintf(&b, "The result of task %s is verified, and could not be delivered: %s.\n", task, inline(delivery.Error.Message, showWhy))
	case t.Outcome == api.OutcomeVerified:
		fmt.Fprintf(&b, "Task %s ended, and nothing was delivered.\n", task)
	default:
		fmt.Fprintf(&b, "Task %s ended without a verified result (%s). Nothing was delivered.\n", task, inline(string(t.Outcome), 60))
	}
	if why := cmp.Or(t.Question, t.Diagnosis); why != "" && t.Outcome != api.OutcomeVerified {
		b.WriteString("\n" + quote(why, showAsked))
	} else if t.Error != nil {
		b.WriteString("\n" + quote(t.Error.Message, showAsked))
	}
	b.WriteString("\n" + AnswerMarker)
	return b.String()
}

// OverBudget is the comment that no task is started for the rest of a day.
func OverBudget(reason string) string {
	return fmt.Sprintf("Hortus starts no task for this: %s. The budget of the repository's webhook begins again at 00:00 UTC.\n\n%s", inline(reason, showWhy), AnswerMarker)
}

// taskLink names a task, with a link to its page if there is one.
func taskLink(task api.TaskID, page string) string {
	if page == "" {
		return "`" + string(task) + "`"
	}
	return fmt.Sprintf("[%s](%s)", task, page)
}
