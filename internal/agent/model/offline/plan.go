package offline

import (
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// planWith answers a PlanRequest. Of programs that read files it has none.
func (m *Model) planWith(req api.PlanRequest) (*api.ExecutionPlan, error) {
	p, err := m.plan(req.Sentence)
	if err == nil && len(req.Files) > 0 && p.Parameters["code"] == "" {
		return nil, api.Errorf(api.KindDeclined, "the offline model declines: %s: it writes no program that reads a given file", quoted(req.Sentence)).
			WithHint("Give it the program: hortus run --file %s 'Run this Python: print(open(\"%[1]s\").read())'; or ask a hosted model: --model anthropic or --model openai.", req.Files[0].Path)
	}
	return p, err
}

// plan plans a sentence.
func (m *Model) plan(sentence string) (*api.ExecutionPlan, error) {
	if p, err := givenProgram(sentence); p != nil || err != nil {
		return p, err
	}
	r := read(sentence)
	if r.problem != "" {
		return nil, decline(quoted(sentence)+": "+r.problem, m.catalogue.examplesOf(m.catalogue.nearest(r)))
	}
	found := m.catalogue.find(r)
	if found == nil {
		return nil, m.catalogue.refuse(sentence, r)
	}
	if found.refuse != "" {
		return nil, found.recipe.outOfBounds(m.catalogue, found.refuse)
	}
	rc := found.recipe
	task, err := m.catalogue.render(m.catalogue.tasks, rc.name, found.params)
	if err != nil {
		return nil, err
	}
	p := &api.ExecutionPlan{
		Language: r.lang, Dependencies: rc.deps, Shell: "bash", Task: strings.TrimSpace(task),
		Parameters: map[string]string{programKey: rc.name}, Output: rc.output,
	}
	if p.Language == "" {
		p.Language = api.Python
		if rc.only != "" {
			p.Language = rc.only
		}
	}
	if p.Output == "" {
		p.Output = api.OutputText
	}
	// A plan must not carry the request past the Planner; where somebody chose
	// the very words of the catalogue, its title says as much.
	if s := strings.TrimSpace(sentence); strings.Contains(p.Task, s) {
		p.Task = "the catalogue's program for " + rc.phrase
	}
	for _, spec := range rc.params {
		v := found.params[spec.name]
		if v == "" {
			continue
		}
		p.Parameters[spec.name] = v
		switch spec.kind {
		case file:
			p.Files = append(p.Files, v)
		case flag:
			p.Output = api.OutputJSON
		}
	}
	return p, nil
}

// code answers an ExecutionPlan with the program that it names. A plan that
// somebody made by hand names none; its task is read like a sentence.
func (m *Model) code(plan api.ExecutionPlan) (*api.CodeArtifact, error) {
	if code, ok := plan.Parameters["code"]; ok {
		return artifactOf(plan, code, plan.Parameters["module"] == "true", "the program as it was given"), nil
	}
	rc := m.catalogue.byName[plan.Parameters[programKey]]
	params := map[string]string{}
	if rc == nil {
		r := read(plan.Task)
		found := m.catalogue.find(r)
		if found == nil {
			return nil, m.catalogue.refuse(plan.Task, r)
		}
		if found.refuse != "" {
			return nil, found.recipe.outOfBounds(m.catalogue, found.refuse)
		}
		rc, params = found.recipe, found.params
	}
	if rc.only != "" && plan.Language != rc.only {
		return nil, decline(fmt.Sprintf("it has %s in %s only, not in %s", rc.phrase, rc.only, plan.Language), m.catalogue.examplesOf([]*recipe{rc}))
	}
	for _, spec := range rc.params {
		if v, ok := plan.Parameters[spec.name]; ok {
			params[spec.name] = v
		} else if params[spec.name] == "" && spec.kind != flag {
			params[spec.name] = spec.def
		} else if spec.kind == flag && params[spec.name] == "" {
			params[spec.name] = ""
		}
	}
	if why := rc.bound(params); why != "" {
		return nil, rc.outOfBounds(m.catalogue, why)
	}
	ext := ".py"
	if plan.Language == api.JavaScript {
		ext = ".js"
	}
	src, err := m.catalogue.render(m.catalogue.source, rc.name+ext, params)
	if err != nil {
		return nil, err
	}
	return artifactOf(plan, tidy(src, plan.Language), false, "from the catalogue: "+rc.phrase), nil
}

// artifactOf is the program as one file, with the command that runs it.
func artifactOf(plan api.ExecutionPlan, src string, module bool, note string) *api.CodeArtifact {
	l, _ := language.Of(plan.Language)
	name, run := l.Main, l.Run
	if module {
		name, run = "main.mjs", "node main.mjs"
	}
	if !strings.HasSuffix(src, "\n") {
		src += "\n"
	}
	return &api.CodeArtifact{
		Language: plan.Language, Files: []api.File{{Path: name, Content: src}}, Compile: l.Compile, Run: run,
		Shell: plan.Shell, Output: plan.Output, Expect: plan.Files, Note: note,
	}
}

// tidy takes out the blank lines that a template leaves where a choice was not
// made. Texts of the request hold no line break here: they are literals.
func tidy(src string, lang api.Language) string {
	most := "\n\n\n"
	if lang == api.JavaScript {
		most = "\n\n"
	}
	for strings.Contains(src, most+"\n") {
		src = strings.ReplaceAll(src, most+"\n", most)
	}
	return strings.Trim(src, "\n") + "\n"
}
