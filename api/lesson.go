package api

import (
	"time"
)

const (
	// MaxLessonFailure and MaxLessonFix bound the texts of a lesson, in bytes.
	MaxLessonFailure = 2 << 10
	MaxLessonFix     = 6 << 10
	// MaxLessonsPerScope is the most that is kept of one repository, or of the programs of one language.
	MaxLessonsPerScope = 500
	// MaxLessonsOffered is the most that is offered for one failure.
	MaxLessonsOffered = 3
)

// EventLessons is the type of the event that a model was given lessons; its data is [LessonsEvent].
const EventLessons EventType = "task.lessons"

// Lesson is a failure with what fixed it, in a task that was verified.
type Lesson struct {
	ID      string `json:"id"` // "l" and 19 characters
	Account string `json:"-"`
	// Scope is where it is offered: the URL of a repository without credentials, or "language:" and the
	// language of a program.
	Scope string `json:"scope"`
	// Fingerprint is a digest of Failure: failures with the same one differ in numbers, paths and times only.
	Fingerprint string `json:"fingerprint"`
	// Failure has the lines that name the failure, without numbers, paths and times.
	Failure string `json:"failure"`
	// Fix says what was changed: a sentence, then a patch, which may be cut.
	Fix string `json:"fix"`
	// Task is the newest one that taught it, and Seen counts them.
	Task TaskID `json:"task"`
	Seen int    `json:"seen"`
	// Offered counts the tasks that were given it and have ended, Helped those of them that were verified.
	Offered   int       `json:"offered"`
	Helped    int       `json:"helped"`
	LearnedAt time.Time `json:"learnedAt"`
	OfferedAt time.Time `json:"offeredAt,omitzero"`
	// Vector is the embedding model whose vector of Failure is stored; empty if there is none.
	Vector string `json:"vector,omitempty"`
}

// LessonMatch is how a lesson was found.
type LessonMatch string

const (
	LessonByFingerprint LessonMatch = "fingerprint" // it is about the same failure
	LessonByText        LessonMatch = "text"        // its failure shares words
	LessonByVector      LessonMatch = "vector"      // only its vector is near
)

// FoundLesson is a lesson that a search found.
type FoundLesson struct {
	Lesson
	By LessonMatch
}

// LessonsEvent reports which lessons a model was given with a failure.
type LessonsEvent struct {
	// Attempt is that of a program, or the round of a task on a repository, which failed; 0 for the gate before
	// the work.
	Attempt int           `json:"attempt"`
	Lessons []LessonOffer `json:"lessons"`
}

// LessonOffer is a lesson as it was given.
type LessonOffer struct {
	ID   string `json:"id"`
	Task TaskID `json:"task"`
	// Failure is its first line.
	Failure string      `json:"failure"`
	By      LessonMatch `json:"by,omitempty"`
}

// LessonQuery asks for lessons about a failure.
type LessonQuery struct {
	Account, Scope, Fingerprint string
	// Words are those of the failure.
	Words []string
	// Limit is the most that is returned.
	Limit int
}
