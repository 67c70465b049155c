package price

// anthropic are Anthropic's list prices, in US dollars for a million tokens, as of
// 2026-11-21. Written is the price of a cache that holds for five minutes, the
// kind that the agent asks for.
var anthropic = Prices{
	"claude-haiku-5-5":  {Input: 0.10, Cached: 0.01, Written: 0.125, Output: 0.50, Over: 100_000, OverInput: 5, OverOutput: 5},
	"claude-sonnet-5-5": {Input: 2, Cached: 0.10, Written: 2.50, Output: 10},
	"claude-opus-5-5":   {Input: 4, Cached: 0.20, Written: 5, Output: 20},
	"claude-fable-5-1":  {Input: 10, Cached: 0.25, Written: 12.50, Output: 50},
	"claude-sonnet-5":   {Input: 2, Cached: 0.20, Written: 2.50, Output: 10},
	"claude-opus-5":     {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-fable-5":    {Input: 10, Cached: 1, Written: 12.50, Output: 50},
	"claude-opus-4-8":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-7":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-6":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-opus-4-5":   {Input: 5, Cached: 0.50, Written: 6.25, Output: 25},
	"claude-sonnet-4-6": {Input: 3, Cached: 0.30, Written: 3.75, Output: 15},
	"claude-sonnet-4-5": {Input: 3, Cached: 0.30, Written: 3.75, Output: 15},
	"claude-haiku-4-5":  {Input: 1, Cached: 0.10, Written: 1.25, Output: 5},
}

// Anthropic returns the prices of Anthropic's models.
func Anthropic() Prices { return anthropic }
