// Package catalogue finds models by name among those that are compiled in, and reads and
// writes recordings of their calls.
//
//	models, err := catalogue.New(catalogue.Config{Getenv: os.Getenv, Transport: http.DefaultTransport})
//	...
//	m, err := models.Open("anthropic:claude-opus-5-5")
//
// The package must not know tasks or what a model is asked. A catalogue holds no goroutine
// and nothing to close; a [Recording] ends with Close or Discard.
package catalogue
