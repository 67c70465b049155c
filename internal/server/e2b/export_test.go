package e2b

import "hortus.dev/api"

// EntriesOf returns the messages of a sandbox's log.
func EntriesOf(s api.Sandbox, execs []api.Exec) (messages []string) {
	for _, e := range entriesOf(s, execs) {
		messages = append(messages, e.Message)
	}
	return messages
}

// OwnValue and RulesOf are for the fuzz test of header rules.
var (
	OwnValue = ownValue
	RulesOf  = rulesOf
)

// BuildID is for the test of its form.
var BuildID = buildID
