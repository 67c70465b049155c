package recall

import (
	"fmt"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// Question is the record of a sub-agent: a part of that of its agent, with steps and a clock of its own, because several
// sub-agents work at the same time.
type Question struct {
	// Journal is that part.
	*Journal
	agent *Agent
	of    *Agent
}

// Question begins the record of question n. It is called once for each, in the order of the calls. [Question.End] ends it.
func (j *Agent) Question(n int) Question {
	name := fmt.Sprintf("%s %d", loop.ResearchTool, n)
	part := New(j.j.Rec.Part(name), j.j.told.Of(name), j.j.now)
	return Question{part, NewAgent(part, j.life, j.again), j}
}

// For returns what the sub-agent works with: its answers are recorded, and its facts are told to an emitter, once.
func (q Question) For(to loop.Emitter) loop.Question {
	return loop.Question{Model: q.model, Do: q.agent.Do(), Emit: q.Facts(to), Now: q.Clock, End: q.end}
}

// model records the answers of a model here and not in the record of the agent.
func (q Question) model(m model.Model) model.Model {
	if r, ok := m.(recorded); ok {
		m = r.Model
	}
	return q.agent.Model(m)
}

// end lets the agent continue at the time at which the question ended, with what it has to know of it.
func (q Question) end() {
	q.of.j.Rec.Join(q.Rec)
	if q.agent.expired.Load() {
		q.of.expired.Store(true)
	}
	if err := q.Damage(); err != nil {
		q.of.j.Spoil(err)
	}
}
