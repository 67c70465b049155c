package api

import (
	"encoding/json"
	"strings"
)

// CreateRun requests a verified program: one sentence through the whole pipeline. A
// run is a [Task] without a repository.
type CreateRun struct {
	// Request is the sentence.
	Request string `json:"request"`
	// Model names the model of all roles; "offline" is the default. Models names
	// others for some of them.
	Model  string `json:"model,omitempty"`
	Models Models `json:"models,omitzero"`
	// Isolation, Template, Limits and Env say what each attempt runs in; they mean
	// what they mean in CreateSandbox.
	Isolation string            `json:"isolation,omitempty"`
	Template  string            `json:"template,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
	Env       map[string]string `json:"env,omitempty"`
	// Egress is what the program may connect to; nil is nothing. SetupEgress is what its
	// install command may connect to; see CreateTask.
	Egress      *EgressPolicy `json:"egress,omitempty"`
	SetupEgress *EgressPolicy `json:"setupEgress,omitempty"`
	// Files are put into the program's directory; see CreateTask.Files.
	Files []InputFile `json:"files,omitempty"`
	// Schema is a JSON Schema for what the program prints; see CreateTask.Schema.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Attempts bounds the passes; the default and the most are DefaultAttempts and
	// MaxAttempts.
	Attempts int `json:"attempts,omitempty"`
	// InstallTimeoutMS and RunTimeoutMS bound one pass.
	InstallTimeoutMS int64 `json:"installTimeoutMs,omitempty"`
	RunTimeoutMS     int64 `json:"runTimeoutMs,omitempty"`
}

// Task is the task that the run is.
func (r CreateRun) Task() CreateTask {
	return CreateTask{
		Request: r.Request, Model: r.Model, Models: r.Models, Files: r.Files, Schema: r.Schema, Attempts: r.Attempts,
		InstallTimeoutMS: r.InstallTimeoutMS, RunTimeoutMS: r.RunTimeoutMS, SetupEgress: r.SetupEgress,
		Sandbox: CreateSandbox{Isolation: r.Isolation, Template: r.Template, Limits: r.Limits, Env: r.Env, Egress: r.Egress},
	}
}

// RunVerdict is the name of a run's last event.
const RunVerdict = "verdict"

// TaskEventType is the type of the event of a task that the stream of a run calls name.
func TaskEventType(name EventType) EventType {
	if name == RunVerdict {
		return EventTaskFinished
	}
	return "task." + name
}

// RunName is the name that an event of a task has in the stream of a run: "created",
// "started", "plan", "code", "attempt", "phase", "output", "result", "diagnosis",
// "escalation", "model", "model_retry", "cancel" and, once and last, "verdict".
func (t EventType) RunName() string {
	if t == EventTaskFinished {
		return RunVerdict
	}
	return strings.TrimPrefix(string(t), "task.")
}
