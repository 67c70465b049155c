package model

import "context"

const (
	// MaxTexts is the most texts of one call of an [Embedder].
	MaxTexts = 64
	// MaxText is the most bytes of one of them.
	MaxText = 8 << 10
)

// Embedder turns texts into vectors. Those of texts that mean the same have about the same direction. Like a
// [Model] it is safe for several goroutines and holds nothing that needs closing.
type Embedder interface {
	// Name is what users choose it by, for example "openai:NAME". Vectors of different names cannot be compared.
	Name() string
	// Embed returns a vector for each text, in their order. All have the same dimension, and are valid as package
	// vector checks it. Errors are those of Model.Generate, without KindDeclined.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
