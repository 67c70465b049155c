package artefact

import "testing"

// Prefix is what the names of all objects of a store begin with.
func (s *Store) Prefix() string { return s.prefix }

// CheckManifest fails if a manifest is accepted that would write outside of its files, or read outside of its chunks.
func CheckManifest(t *testing.T, b []byte, limit int64) {
	m, err := parse(b, limit)
	if err != nil {
		return
	}
	var total int64
	for _, f := range m.Files {
		if total += f.Bytes; !fileName(f.Name) || f.Bytes < 0 {
			t.Errorf("file %q of %d bytes", f.Name, f.Bytes)
		}
		seen := map[int64]bool{}
		for _, e := range f.Extents {
			for i := range e[3] {
				if p := e[0] + i; p < 0 || p*pageSize >= f.Bytes || seen[p] || e[2]+i < 0 || e[2]+i >= m.Chunks[e[1]].Pages {
					t.Fatalf("extent %v of %+v", e, f)
				}
				seen[e[0]+i] = true
			}
		}
	}
	if total > limit {
		t.Errorf("%d bytes", total)
	}
}
