package plan

// AmendRequest asks a model whether an item may change other files than those of its touches. Nobody else may change them now.
type AmendRequest struct {
	// Request is that of the plan.
	Request string `json:"request"`
	Item    Item   `json:"item"`
	// Files are the files, and Why is the reason of the agent of the item. Both are untrusted.
	Files []AmendFile `json:"files"`
	Why   string      `json:"why,omitempty"`
}

// AmendFile is a file that an item asks for.
type AmendFile struct {
	Path string `json:"path"`
	// Bytes is its size. New is true if it does not exist.
	Bytes int64 `json:"bytes"`
	New   bool  `json:"new,omitempty"`
}

// Verdict is the answer to an amendment.
type Verdict string

const (
	// Grant lets the item change exactly these files.
	Grant Verdict = "grant"
	// Deny has it continue without them.
	Deny Verdict = "deny"
)

// AmendAnswer is the answer of a model.
type AmendAnswer struct {
	Answer Verdict `json:"answer"`
	Reason string  `json:"reason"`
}
