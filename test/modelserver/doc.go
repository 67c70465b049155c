// Package modelserver is a scripted language model for tests: a server that returns
// prepared answers over Anthropic's Messages, OpenAI's chat completions and Responses,
// and Google's Gemini API, streaming or not, on one address.
//
// # Scenarios
//
// A scenario is a txtar archive. Each of its files is a step, and the steps answer
// the requests in order; file names are only for readers. A step has lines
// "key: value", an empty line, and its body. A line that begins with # is a
// comment. All keys are optional:
//
//	expect: TEXT        a string of the request contains TEXT (repeatable)
//	lacks: TEXT         no string of the request contains TEXT (repeatable)
//	last: TEXT          a string of the last message contains TEXT; consecutive
//	                    results of tools are one message (repeatable)
//	output: NAME        the request requires a structured answer of that name
//	wire: NAME          the request uses this API: messages, chat, responses
//	                    or gemini, whose calls of tools are not sent in pieces
//	answer: KIND        what the body is: text (the default), output (a
//	                    structured answer: the input of the tool that was
//	                    offered for it, or the text), or raw (the unmodified
//	                    bytes of the stream)
//	call: TOOL          the body is the input of a call of that tool; it need
//	                    not be JSON
//	act: write PATH     the body is written to a file, or (act: shell) run as a
//	                    command, with a tool that the request offers for it: for
//	                    agents whose tools differ
//	also: TOOL INPUT    a further call in the same stream, on one line
//	                    (repeatable; only with call)
//	say: TEXT           text before the calls of a stream (only with call or act)
//	status: CODE        answer with that error (400 to 599); the body is its message
//	class: WORD         the error's type, for example overloaded_error
//	header: NAME: VALUE a header of the answer (repeatable)
//	delay: DURATION     wait before the first byte
//	pace: DURATION      wait between the pieces of a stream
//	piece: BYTES        the size of a piece (default 16)
//	cut: BYTES          close the connection after this much of the body
//	fail: CLASS         with cut: send an error of that class instead of closing
//	endless: true       repeat the body until the client disconnects
//	stop: WORD          stop reason: end (the default), length or refusal
//	usage: IN CACHED OUT  the tokens that the answer reports; IN includes CACHED
//	times: N            use the step for N requests in a row (default 1)
//
// Lines before the first file configure the server:
//
//	key: SECRET         refuse requests without this key, with 401
//	model: NAME         refuse other models, with 404
//	side: ignore        answer "ok" to a request without tools and structured
//	                    answer, without using a step: agents send such side
//	                    requests for titles and summaries
//
// A request after the last step, or one that does not meet the expectations of its
// step, is answered with 400. [Server.Problems] lists these, and the unused steps.
//
// The package must not depend on Hortus: it is a server for any client. A [Server] is
// an [http.Handler]; it owns no goroutine, and an answer ends when its client
// disconnects.
package modelserver
