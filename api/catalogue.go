package api

// CatalogueEntry is one thing that the built-in model does. Its example is a request that
// the model takes.
type CatalogueEntry struct {
	Name string        `json:"name"`
	Kind CatalogueKind `json:"kind"`
	// Does is what it is, for people.
	Does    string `json:"does"`
	Example string `json:"example"`
	// Languages are those in which the program can be had.
	Languages []Language `json:"languages"`
}

// CatalogueKind is how an entry is requested.
type CatalogueKind string

// The kinds of entries.
const (
	// CatalogueProgram is a program of the catalogue: hortus run "EXAMPLE".
	CatalogueProgram CatalogueKind = "program"
	// CatalogueGiven runs a program that the sentence holds: hortus run "EXAMPLE".
	CatalogueGiven CatalogueKind = "given"
	// CatalogueRepository is work on a repository: hortus task --repo . "EXAMPLE".
	CatalogueRepository CatalogueKind = "repository"
)
