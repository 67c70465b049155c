package api

import "time"

// BrowserPort is the port inside a sandbox at which its browser speaks the Chrome DevTools Protocol.
const BrowserPort = 9222

// BrowserFrame is what the browser of a sandbox shows at one instant.
type BrowserFrame struct {
	// Target is the tab that is shown; Title and URL are its. They are what a page says of itself.
	Target string `json:"target"`
	Title  string `json:"title,omitempty"`
	URL    string `json:"url,omitempty"`
	// Image is a JPEG of it, Width and Height the size of the tab in its own pixels, in which the places of inputs are.
	Image  []byte  `json:"image"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// BrowserControl is the control over a browser: one client at a time has it, until ExpiresAt, unless it inputs something or
// takes it again with its Token.
type BrowserControl struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// TakeBrowser requests the control over a browser. Token is that of the control which the client has and wants to keep.
type TakeBrowser struct {
	Token string `json:"token,omitempty"`
}

// BrowserInput are inputs for a tab of a browser, by who has the control over it.
type BrowserInput struct {
	Token  string         `json:"token"`
	Target string         `json:"target"`
	Events []BrowserEvent `json:"events"`
}

// BrowserAction is what an input does.
type BrowserAction string

const (
	BrowserMove  BrowserAction = "move"  // the mouse to X, Y
	BrowserDown  BrowserAction = "down"  // a button of the mouse at X, Y; Clicks is 2 for a double click
	BrowserUp    BrowserAction = "up"    // the same
	BrowserWheel BrowserAction = "wheel" // by DX, DY at X, Y
	BrowserKey   BrowserAction = "key"   // Key is pressed and released, as KeyboardEvent.key and .code name it
	BrowserText  BrowserAction = "text"  // Text is inserted
	BrowserOpen  BrowserAction = "open"  // Text is the address of a page, of http or https
	BrowserBack  BrowserAction = "back"  // to the page before
)

// BrowserActions lists all of them.
func BrowserActions() []BrowserAction {
	return []BrowserAction{BrowserMove, BrowserDown, BrowserUp, BrowserWheel, BrowserKey, BrowserText, BrowserOpen, BrowserBack}
}

// BrowserEvent is one input.
type BrowserEvent struct {
	Action BrowserAction `json:"action"`
	X      float64       `json:"x,omitempty"`
	Y      float64       `json:"y,omitempty"`
	DX     float64       `json:"dx,omitempty"`
	DY     float64       `json:"dy,omitempty"`
	// Button is left, middle or right; empty is none.
	Button string `json:"button,omitempty"`
	Clicks int    `json:"clicks,omitempty"`
	Key    string `json:"key,omitempty"`
	Code   string `json:"code,omitempty"`
	// KeyCode is the number that older pages read; Modifiers are 1 for Alt, 2 for Control, 4 for Meta and 8 for Shift, added up.
	KeyCode   int    `json:"keyCode,omitempty"`
	Modifiers int    `json:"modifiers,omitempty"`
	Text      string `json:"text,omitempty"`
}
