package api

// BuildTemplate requests a template that is built from a Dockerfile.
type BuildTemplate struct {
	// Name is NAME or NAME:TAG. Tags are more tags of it.
	Name string   `json:"name"`
	Tags []string `json:"tags,omitempty"`
	// Dockerfile is its text, or YAML that of a hortus.yaml. One of them is required.
	Dockerfile string `json:"dockerfile,omitempty"`
	YAML       string `json:"yaml,omitempty"`
	// Args are values of its ARGs. They are in the records of the build: do not use them for secrets.
	Args map[string]string `json:"args,omitempty"`
	// Target is the stage to build; empty is the last one.
	Target string `json:"target,omitempty"`
	// Files is the ID of uploaded files, which COPY reads.
	Files string `json:"files,omitempty"`
	// Start is a shell command that runs in each sandbox of the template. Ready is one that succeeds when
	// it is ready, within five minutes in the build.
	Start     string `json:"start,omitempty"`
	Ready     string `json:"ready,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	Limits    Limits `json:"limits,omitzero"`
	// Egress is what the steps may connect to; nil denies everything.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// PrivateTraffic has requests to the ports of the template's sandboxes need their traffic token, or a ticket.
	PrivateTraffic bool `json:"privateTraffic,omitempty"`
	// IDEPort is the port at which the template's sandboxes have an editor. It makes their ports private.
	IDEPort int `json:"idePort,omitempty"`
	// Preset is a Dockerfile that comes with Hortus, in the place of Dockerfile or YAML, with its start command, its limits, what its
	// steps may connect to, and private ports. From is what it starts from; empty is HostTemplate.
	Preset Preset `json:"preset,omitempty"`
	From   string `json:"from,omitempty"`
	// Secrets are the secrets of the account that steps may use (RUN --mount=type=secret), by the id that the Dockerfile
	// gives them. No other ones can be used. A step has placeholders, never the values.
	Secrets map[string]string `json:"secrets,omitempty"`
	// NoCache runs every step.
	NoCache bool `json:"noCache,omitempty"`
}

// BuildLine is one line of the answer to a BuildTemplate. Type says which other field is set.
type BuildLine struct {
	Type LineType `json:"type"`
	Step string   `json:"step,omitempty"`
	// Output is one line that a step printed.
	Output   *string   `json:"output,omitempty"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Error    *Problem  `json:"error,omitempty"`
}

// BuildFiles are files that were uploaded for builds.
type BuildFiles struct {
	ID string `json:"id"`
}
