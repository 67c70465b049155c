package tally

import (
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// lessons counts a request that had a failure, with or without lessons of earlier tasks.
func (y *Tally) lessons(t api.Task) {
	passes, failed := len(t.Attempts), slices.ContainsFunc(t.Attempts, func(a api.Attempt) bool { return a.Result != nil && !a.Result.OK })
	if r := t.Repo; r != nil {
		passes = len(r.Rounds)
		failed = r.Before != nil && !r.Before.Passed ||
			slices.ContainsFunc(r.Rounds, func(x api.Round) bool { return x.Gate != nil && !x.Gate.Passed })
	}
	if !failed || t.State != api.TaskDone || t.Outcome == api.OutcomeCanceled {
		return
	}
	o := admin.Overcome{Tasks: 1}
	if t.Outcome == api.OutcomeVerified {
		o.Verified, o.Passes = 1, passes
	}
	var s admin.LessonStats
	if len(t.Lessons) > 0 {
		s.With, s.By = o, map[string]admin.Given{}
		for by, n := range t.LessonsBy {
			s.By[by] = admin.Given{Lessons: n, Verified: n * o.Verified}
		}
	} else {
		s.Without = o
	}
	y.addLessons(&s)
}

// addLessons adds counts; nil are none.
func (y *Tally) addLessons(s *admin.LessonStats) {
	if s == nil {
		return
	}
	if y.stats.Lessons == nil {
		y.stats.Lessons = &admin.LessonStats{}
	}
	add := func(to *admin.Overcome, from admin.Overcome) {
		to.Tasks += from.Tasks
		to.Verified += from.Verified
		to.Passes += from.Passes
	}
	add(&y.stats.Lessons.With, s.With)
	add(&y.stats.Lessons.Without, s.Without)
	if len(s.By) > 0 && y.stats.Lessons.By == nil {
		y.stats.Lessons.By = map[string]admin.Given{}
	}
	for by, n := range s.By {
		have := y.stats.Lessons.By[by]
		y.stats.Lessons.By[by] = admin.Given{Lessons: have.Lessons + n.Lessons, Verified: have.Verified + n.Verified}
	}
}
