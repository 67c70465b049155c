package agent

import (
	"encoding/json"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/plan"
)

// TestSchemasAreDescribed: a model reads a description of each field that it may fill in,
// and no description is of a field that does not exist.
func TestSchemasAreDescribed(t *testing.T) {
	type schema struct {
		Description string
		Properties  map[string]*schema
		Items       *schema
	}
	used := map[string]bool{}
	var walk func(at string, s *schema)
	walk = func(at string, s *schema) {
		for name, p := range s.Properties {
			if used[p.Description] = true; p.Description == "" {
				t.Errorf("%s.%s has no description", at, name)
			}
			walk(at+"."+name, p)
			if p.Items != nil {
				walk(at+"."+name+"[]", p.Items)
			}
		}
	}
	for name, v := range map[string]any{"ExecutionPlan": api.ExecutionPlan{}, "CodeArtifact": api.CodeArtifact{}, "Diagnosis": api.Diagnosis{}, "AmendAnswer": plan.AmendAnswer{}} {
		var s schema
		if err := json.Unmarshal(schemaOf(v), &s); err != nil || len(s.Properties) == 0 {
			t.Fatalf("%s: %v, %d properties", name, err, len(s.Properties))
		}
		walk(name, &s)
	}
	for field, text := range descriptions {
		if !used[text] {
			t.Errorf("no schema has the field %s", field)
		}
	}
}
