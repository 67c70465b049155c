// Package retry has the words about work that is tried again.
//
//	if e.Type == retry.EventRetry {
//		var r retry.Event
//		err := json.Unmarshal(e.Data, &r)
//		...
//	}
//
// The values are plain data.
package retry
