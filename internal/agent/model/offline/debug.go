package offline

import (
	"maps"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/offline/repair/diagnosis"
)

// diagnose answers a DebugRequest.
func (m *Model) diagnose(req api.DebugRequest) *api.Diagnosis {
	return diagnosis.Diagnose(req, m.leaner(req)...)
}

// leaner returns, for a program of the catalogue that ran out of memory, its version that
// keeps no list of values.
func (m *Model) leaner(req api.DebugRequest) []diagnosis.Correction {
	p := req.Plan
	if req.Result.Category != api.CategoryMemory || p.Parameters["storage"] == "" {
		return nil
	}
	p.Parameters = maps.Clone(p.Parameters)
	delete(p.Parameters, "storage")
	a, err := m.code(p)
	if err != nil {
		return nil
	}
	next := req.Artifact
	next.Files = a.Files
	return []diagnosis.Correction{{Cause: "the list of all values does not fit into memory; the sum needs one value at a time", Artifact: next}}
}
