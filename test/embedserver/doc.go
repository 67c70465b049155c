// Package embedserver is a server with OpenAI's embeddings API for tests: its vectors are made of the words of a text,
// and words that are synonyms are one word to it.
//
//	s := embedserver.New(64, map[string]string{"absent": "missing"})
//	srv := httptest.NewServer(s)
//	...
//	s.Next(http.StatusTooManyRequests, "Retry-After: 0", `{"error":{"message":"slow down"}}`)
//	texts := s.Texts() // what it was asked
//
// Texts with the same words have the same vector, on each run and each machine. The package must not depend on Hortus:
// it is a server for any client. A [Server] is an [http.Handler] and owns no goroutine.
package embedserver
