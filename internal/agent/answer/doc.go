// Package answer checks structured answers: JSON values that must be valid for a JSON Schema
// that came with a request.
//
// Both come from outside. A schema has bounded size and may not refer to other documents:
// nothing is read or fetched for it. Its regular expressions are Go's, whose time is linear.
// A value is taken if it is one JSON value and valid; there is no partial one.
//
// # Lives
//
// A [Schema] is immutable and may be used by several goroutines.
//
// The package must not know models, sandboxes or tasks.
//
//	s, err := answer.Compile(json.RawMessage(`{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}}}`))
//	...
//	value, err := s.Check([]byte(`{"total": 12}`))
package answer
