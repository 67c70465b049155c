// Package meter counts what a request to the API of a language model used: the tokens that its
// answer states, and what they cost. It reads the bytes of the request and of the answer while they
// pass, in bounded memory, and delays none.
//
//	m := meter.New(secrets.Anthropic, "POST", "/v1/messages")
//	m.Request(b)                 // for each part of the body, not compressed
//	m.Declared(r.ContentLength)  // if the body was not read to its end
//	upper := m.Estimate()        // before the request is sent
//	m.Begin(resp.StatusCode, resp.Header.Get("Content-Type"))
//	m.Answer(b)                  // for each part of the answer, not compressed
//	used := m.Used(ended)
//
// An answer that states no usage, or was not read to its end, is counted as an upper estimate:
// a token for each byte of the request, and the maximum of the answer that the request asks for. If
// it asks for none, that is a token for each byte of the answer, and at least 32,768.
//
// Requests are from a sandbox and answers from a server: both may be hostile. What is not JSON, is
// nested deeper than is reasonable, or says something twice in different ways is as if it said
// nothing.
//
// A [Meter] is for one request and has nothing to close. Its methods may be called from several
// goroutines. The package must not know secrets, budgets, or how requests are sent.
//
// # Reasons
//
// The proxy counts, because each request passes it and no agent needs to be asked. An upper
// estimate is reserved in the step of the check, or any number of requests could begin with the
// last token; who does not let an answer be counted pays it. An unknown model costs as much as
// the most expensive known one.
package meter
