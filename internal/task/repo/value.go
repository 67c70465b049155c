package repo

import (
	"encoding/json"

	"hortus.dev/api"
	"hortus.dev/internal/agent/answer"
	"hortus.dev/internal/agent/loop"
)

// check returns what checks a value; nil if the task has no schema.
func (w *attempt) valueCheck() (func(json.RawMessage) (json.RawMessage, error), error) {
	if len(w.task.Create.Schema) == 0 {
		return nil, nil
	}
	s, err := answer.Compile(w.task.Create.Schema)
	if err != nil {
		return nil, err
	}
	return func(raw json.RawMessage) (json.RawMessage, error) { return s.Check(raw) }, nil
}

// missing reports whether there should be a value and the agent gave none with its last word.
func (w *attempt) valueMissing(rep loop.Report) bool {
	return len(w.task.Create.Schema) > 0 && w.valueOf(rep) == nil
}

// of is the value that the agent gave.
func (w *attempt) valueOf(rep loop.Report) json.RawMessage {
	if rep.Finish == nil || len(w.task.Create.Schema) == 0 {
		return nil
	}
	return rep.Finish.Value
}

// noValue is the message to an agent whose work passed the gate without a value.
const noValue = "The gate passed, but the result has no value. Call finish again with the field value."

// withoutValue is the end of such work.
func withoutValue() End {
	return End{
		Outcome: api.OutcomeNeedsHuman, Diagnosis: "The gate passes, but the agent gave no value for the schema.",
		Question: "Is the change useful without the value, or should the agent get a larger budget?",
	}
}
