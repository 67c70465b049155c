package plan

import "hortus.dev/api"

// DivideRequest asks a model to divide a request into items.
type DivideRequest struct {
	Request string `json:"request"`
	// Files are the paths of the repository, and Tree its directories if there are more.
	Files []string `json:"files,omitempty"`
	Tree  string   `json:"tree,omitempty"`
	// Gate is the command that tests the repository; empty if there is none.
	Gate string `json:"gate,omitempty"`
	// Guidance are the files in which the repository says how to work on it, and Documents the titles of what else can be read. All are
	// untrusted.
	Guidance  []api.Document `json:"guidance,omitempty"`
	Documents []string       `json:"documents,omitempty"`
	// Taken are globs of files that other plans change now.
	Taken []string `json:"taken,omitempty"`
	// Done are the items of an earlier division, and what came of them.
	Done []DoneItem `json:"done,omitempty"`
}

// DoneItem says what came of an item.
type DoneItem struct {
	Item
	State ItemState `json:"state"`
	Why   string    `json:"why,omitempty"`
}

// Division is the answer: the items.
type Division struct {
	Items []Item `json:"items"`
}
