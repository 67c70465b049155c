package embedserver

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// maxRequest is the most bytes that are read of a request.
const maxRequest = 4 << 20

// Server answers POST /v1/embeddings.
type Server struct {
	synonyms map[string]string

	mu        sync.Mutex
	dimension int
	longest   int
	key       string
	next      []canned
	calls     [][]string
	models    []string
}

// canned is an answer that was prepared.
type canned struct {
	status int
	header string
	body   string
}

// New makes a server whose vectors have a number of dimensions. synonyms gives words the meaning of others.
func New(dimension int, synonyms map[string]string) *Server {
	return &Server{dimension: dimension, synonyms: synonyms}
}

// Next prepares the answer to the next request without one. header is "NAME: VALUE", or empty.
func (s *Server) Next(status int, header, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, canned{status, header, body})
}

// Refuse answers 400 to requests with a text of more than a number of bytes; 0 is no limit.
func (s *Server) Refuse(longest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = longest
}

// Forget drops the answers of Next that are left, and the limit of Refuse.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.longest = nil, 0
}

// Resize changes the dimension of the vectors.
func (s *Server) Resize(dimension int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dimension = dimension
}

// Require answers 401 to requests without a key.
func (s *Server) Require(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// Calls lists the texts of each request so far, also of those that failed.
func (s *Server) Calls() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Texts lists all texts that were sent so far.
func (s *Server) Texts() []string { return slices.Concat(s.Calls()...) }

// Models lists the model of each request so far.
func (s *Server) Models() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.models)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(b, &req)
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/embeddings" || err != nil || req.Model == "" || len(req.Input) == 0 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("cannot read %s %s: %v", r.Method, r.URL.Path, err))
		return
	}
	s.mu.Lock()
	s.calls, s.models = append(s.calls, req.Input), append(s.models, req.Model)
	dimension, longest, key := s.dimension, s.longest, s.key
	var now *canned
	if len(s.next) > 0 {
		now, s.next = &s.next[0], s.next[1:]
	}
	s.mu.Unlock()
	if now != nil {
		w.Header().Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(now.header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(now.status)
		io.WriteString(w, now.body)
		return
	}
	if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
		fail(w, http.StatusUnauthorized, "wrong key")
		return
	}
	type item struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float64 `json:"embedding"`
	}
	var items []item
	for i, text := range req.Input {
		if longest > 0 && len(text) > longest {
			fail(w, http.StatusBadRequest, "the input is too long")
			return
		}
		items = append(items, item{"embedding", i, s.vector(text, dimension)})
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone cannot be told anything.
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": req.Model, "data": items, "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1}})
}

func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": text, "type": "invalid_request_error"}})
}

// vector counts the words of a text, each in the place that its hash has.
func (s *Server) vector(text string, dimension int) []float64 {
	v := make([]float64, dimension)
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if of := s.synonyms[w]; of != "" {
			w = of
		}
		h := fnv.New64a()
		io.WriteString(h, w) // a hash never fails
		v[h.Sum64()%uint64(dimension)]++
	}
	return v
}
