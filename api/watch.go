package api

// Watched is a message of the event stream of a page: an event of a stream that the page follows, or the streams of the
// account that changed.
type Watched struct {
	Event *Event `json:"event,omitempty"`
	// Changed are streams that got events since the message before it. The rows that they belong to may have changed. A stream
	// StreamCommands has no events: commands of the sandbox have started or ended.
	Changed []Stream `json:"changed,omitempty"`
	// Any is true if more changed than can be listed, and in the first message: read again what the page shows.
	Any bool `json:"any,omitempty"`
}
