package database

import (
	"bytes"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/vector"
	"hortus.dev/internal/store"
)

var stream = api.Stream{Kind: api.StreamTask, ID: "t4f2a000000000000000"}

// benchData is 800 bytes of JSON.
var benchData = append(append([]byte(`{"data":"`), bytes.Repeat([]byte("x"), 789)...), '"', '}')

// BenchmarkAppendEvent stores one event of 800 bytes after another; the clock
// runs from the call to the commit.
func BenchmarkAppendEvent(b *testing.B) {
	db := newTest(b)
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.AppendEvent(b.Context(), stream, api.EventOutput, at, benchData); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadEvent reads the last event of a stream of 10,000.
func BenchmarkReadEvent(b *testing.B) {
	db := newTest(b)
	for range 10000 {
		if _, err := db.AppendEvent(b.Context(), stream, api.EventOutput, time.Now(), benchData); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if page, err := db.ReadEvents(b.Context(), stream, 9999, 128); err != nil || len(page) != 1 {
			b.Fatal(len(page), err)
		}
	}
}

// BenchmarkOpen opens (not closes) a database that is up to date and holds
// 10,000 events.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "hortus.db")
	first := openTest(b, path)
	for range 10000 {
		if _, err := first.AppendEvent(b.Context(), stream, api.EventOutput, time.Now(), benchData); err != nil {
			b.Fatal(err)
		}
	}
	for _, alone := range []bool{true, false} {
		b.Run("alone="+strconv.FormatBool(alone), func(b *testing.B) {
			if alone {
				if err := first.Close(); err != nil {
					b.Fatal(err)
				}
			} else {
				first = openTest(b, path)
			}
			for b.Loop() {
				db, err := OpenSQLite(b.Context(), SQLite{Path: path})
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				db.Close()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkOpenFresh makes a new database.
func BenchmarkOpenFresh(b *testing.B) {
	dir := b.TempDir()
	n := 0
	for b.Loop() {
		n++
		db, err := OpenSQLite(b.Context(), SQLite{Path: filepath.Join(dir, strconv.Itoa(n))})
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		db.Close()
		b.StartTimer()
	}
}

// BenchmarkUpdateSandbox replaces one row.
func BenchmarkUpdateSandbox(b *testing.B) {
	db := newTest(b)
	s := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: time.Now(), Env: map[string]string{"A": "b"}}
	if err := db.InsertSandbox(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := db.UpdateSandbox(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNearLessons compares a vector with those of a full scope, of the largest dimension and of a usual one.
func BenchmarkNearLessons(b *testing.B) {
	for _, dimension := range []int{1024, vector.MaxDimension} {
		b.Run(strconv.Itoa(dimension), func(b *testing.B) {
			ctx := b.Context()
			db := newTest(b)
			v := make([]float32, dimension)
			for i := range v {
				v[i] = float32(i%7) - 3
			}
			for i := range api.MaxLessonsPerScope {
				l, err := db.PutLesson(ctx, api.Lesson{ID: api.NewLessonID(), Scope: "repo", Fingerprint: strconv.Itoa(i), Failure: "failure", Fix: "fix", Task: api.NewTaskID(), LearnedAt: time.Now()})
				if err != nil {
					b.Fatal(err)
				}
				if err := db.PutLessonVectors(ctx, "", []store.LessonVector{{ID: l.ID, Failure: l.Failure, Model: "m", Values: v}}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				found, err := db.NearLessons(ctx, store.VectorQuery{Scope: "repo", Model: "m", Values: v, Least: 0.5, Limit: 12})
				if err != nil || len(found) != 12 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
