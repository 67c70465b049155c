package price

// gemini are the list prices of Google's Gemini API, in US dollars for a million tokens of text,
// as of 2026-06. A prompt of a Pro model above 200,000 tokens costs twice as much, and its answer
// half as much again.
var gemini = Prices{
	"gemini-3.5-flash":              {Input: 1.50, Cached: 0.15, Output: 9},
	"gemini-3.1-pro-preview":        {Input: 2, Cached: 0.20, Output: 12, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-3.1-flash-lite-preview": {Input: 0.25, Cached: 0.025, Output: 1.50},
	"gemini-3-pro-preview":          {Input: 2, Cached: 0.20, Output: 12, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-3-flash-preview":        {Input: 0.50, Cached: 0.05, Output: 3},
	"gemini-2.5-pro":                {Input: 1.25, Cached: 0.125, Output: 10, Over: 200_000, OverInput: 2, OverOutput: 1.5},
	"gemini-2.5-flash":              {Input: 0.30, Cached: 0.03, Output: 2.50},
	"gemini-2.5-flash-lite":         {Input: 0.10, Cached: 0.01, Output: 0.40},
}

// Gemini returns the prices of Google's Gemini API.
func Gemini() Prices { return gemini }
