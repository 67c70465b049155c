package store

import (
	"context"
	"hortus.dev/api"
)

// LessonVector is the vector of the failure of a lesson.
type LessonVector struct {
	// ID is that of the lesson, and Failure the text that the vector is of.
	ID, Failure string
	// Model made it. Its vectors all have the dimension of the first that was stored.
	Model string
	// Values is the vector; nil says that the model refused the text.
	Values []float32
}

// VectorQuery asks for the lessons of a scope whose vectors are near to one.
type VectorQuery struct {
	Account, Scope string
	// Fingerprint is that of the failure itself, whose lesson is left out.
	Fingerprint string
	Model       string
	Values      []float32
	// Least is the least cosine similarity, and Limit the most lessons.
	Least float64
	Limit int
}

// LessonVectors are the vectors of lessons. They are removed with their lessons.
type LessonVectors interface {
	// LessonsToEmbed counts the lessons of a scope that have a vector of a model, and returns the newest of those that have
	// none and were not refused.
	LessonsToEmbed(ctx context.Context, account, scope, model string, limit int) (have int, missing []api.Lesson, err error)
	// PutLessonVectors stores vectors in place of those before. Those of lessons that are gone, or have another failure by
	// now, are left out. The error is KindInvalid for a vector that has another dimension than those of its model.
	PutLessonVectors(ctx context.Context, account string, all []LessonVector) error
	// NearLessons returns lessons by their similarity, the nearest first. It reads at most api.MaxLessonsPerScope vectors. The
	// error is KindInvalid for a vector of another dimension.
	NearLessons(ctx context.Context, q VectorQuery) ([]api.Lesson, error)
}
