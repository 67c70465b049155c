// Package openai is a model behind OpenAI's Responses API, or behind the chat
// completions API that OpenAI and many other servers speak.
//
// Every call streams. A structured answer is requested as a JSON schema format,
// strict where the schema is within what strict mode knows. Nothing is stored at
// the vendor's. The vendor caches prompts by itself; what came from the cache is
// reported in the usage.
//
// The package must not know roles, sandboxes or tasks, reads no environment and
// tries nothing twice. A [Model] is read-only after New and safe for several
// goroutines; a call ends when its context does, and within the limits of
// package hosted.
package openai
