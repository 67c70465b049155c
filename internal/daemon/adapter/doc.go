// Package adapter fits parts of a daemon to the interfaces that other parts declare: the event log with its
// metrics, the engine of tasks with the rows of the store, the roles of the pipeline without a task, and the
// decisions about outgoing connections with those that are not stored yet.
//
//	log := adapter.Facts{Log: events, Metrics: telemetry}
//	tasks := access.NewTasks(adapter.Engine{Engine: engine, Rows: rows}, sandboxes, rates)
//
// The package must not create or end anything: its values hold what the daemon created, and need no closing.
package adapter
