// Package modelserver is a language model that says what it was told to say: a
// server for tests that speaks Anthropic's Messages, OpenAI's chat completions
// and OpenAI's Responses, streaming and not, on one address.
//
// # Scenarios
//
// A scenario is a txtar archive. Each of its files is a step, and the steps
// answer the requests in their order; a file's name is for people. A step has
// lines "key: value", an empty line, and its body. A line that begins with # is a
// comment. All keys are optional:
//
//	expect: TEXT        some string of the request holds TEXT (repeatable)
//	lacks: TEXT         no string of the request holds TEXT (repeatable)
//	last: TEXT          some string of the last message holds TEXT; results of
//	                    tools that stand together are one message (repeatable)
//	output: NAME        the request asks for a structured answer of that name
//	wire: NAME          it came over messages, chat or responses
//	answer: KIND        what the body is: text (the default), output (a
//	                    structured answer: the input of the tool that was
//	                    offered for it, or the text), or raw (bytes of the
//	                    stream as they are)
//	call: TOOL          the body is the input of a call of that tool; it need
//	                    not be JSON
//	also: TOOL INPUT    a further call in the same stream, on one line
//	                    (repeatable; only with call)
//	say: TEXT           words before the calls of a stream (only with call)
//	status: CODE        answer with that error; the body is its message
//	class: WORD         the error's type, for example overloaded_error
//	header: NAME: VALUE a header of the answer (repeatable)
//	delay: DURATION     wait before the first byte
//	pace: DURATION      wait between the pieces of a stream
//	piece: BYTES        the size of a piece (default 16)
//	cut: BYTES          break the connection after so much of the body
//	fail: CLASS         with cut: send an error of that class instead of breaking
//	endless: true       repeat the body until the client leaves
//	stop: WORD          end (the default), length or refusal
//	usage: IN CACHED OUT  the tokens that the answer tells; IN holds CACHED
//	times: N            use the step for N requests in a row (default 1)
//
// Lines before the first file set up the whole server:
//
//	key: SECRET         refuse requests without this key, with 401
//	model: NAME         refuse other models, with 404
//	side: ignore        a request that offers no tools and asks for no structured
//	                    answer is answered with "ok" and uses up no step, as
//	                    agents ask for titles and summaries beside their work
//
// A request that no step wants, or that a step did not expect, is answered with
// 400 and kept: [Server.Problems] lists it, and the steps that nobody used.
//
// The package must not know Hortus: it is a server for any client. A [Server] is
// an [http.Handler]; it owns no goroutine, and an answer ends when its client
// goes.
package modelserver
