package lesson

import (
	"cmp"
	"context"
	"hortus.dev/api"
	"slices"
)

// About finds what fixed a failure before, or one that is like it, the best first: at most api.MaxLessonsOffered. That an
// embedding model does not answer is logged, and the search goes on without it.
func (b *Book) About(ctx context.Context, account, scope, output string) ([]api.FoundLesson, error) {
	f := Of(output)
	if f.Text == "" || scope == "" {
		return nil, nil
	}
	// Some of what is found is left out below.
	const limit = 4 * api.MaxLessonsOffered
	found, err := b.cfg.Rows.SimilarLessons(ctx, api.LessonQuery{
		Account: account, Scope: scope, Fingerprint: f.Fingerprint, Words: words(f.Text), Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	var out []api.FoundLesson
	var text []api.Lesson
	for _, l := range useful(found) {
		switch {
		case l.Fingerprint == f.Fingerprint:
			out = append(out, api.FoundLesson{Lesson: l, By: api.LessonByFingerprint})
		case alike(f.Text, l.Failure):
			text = append(text, l)
		}
	}
	near := b.near(ctx, account, scope, f, limit)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out = append(out, fuse(text, useful(near))...)
	return out[:min(len(out), api.MaxLessonsOffered)], nil
}

// useful leaves out the lessons that were offered often and never helped.
func useful(all []api.Lesson) []api.Lesson {
	return slices.DeleteFunc(all, func(l api.Lesson) bool { return l.Helped == 0 && l.Offered >= tired })
}

// fuseAt is the constant of reciprocal rank fusion: the larger it is, the less a first place counts against being in
// both lists. 60 is the usual one.
const fuseAt = 60

// fuse joins two lists by reciprocal rank fusion: a full-text rank and a cosine are numbers of different kinds, but
// places in lists can be added up. Of equals, those that share words go first.
func fuse(text, near []api.Lesson) []api.FoundLesson {
	var out []api.FoundLesson
	score := map[string]float64{}
	for _, of := range []struct {
		by   api.LessonMatch
		list []api.Lesson
	}{{api.LessonByText, text}, {api.LessonByVector, near}} {
		for i, l := range of.list {
			if score[l.ID] == 0 {
				out = append(out, api.FoundLesson{Lesson: l, By: of.by})
			}
			score[l.ID] += 1 / float64(fuseAt+1+i)
		}
	}
	slices.SortStableFunc(out, func(a, b api.FoundLesson) int { return cmp.Compare(score[b.ID], score[a.ID]) })
	return out
}
