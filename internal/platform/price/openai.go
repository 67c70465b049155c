package price

// openai are OpenAI's list prices, in US dollars for a million tokens, as of
// 2026-11-21. A prompt above 272,000 tokens costs twice as much, and its answer
// half as much again.
var openai = Prices{
	"gpt-6.1-sol":   {Input: 2, Cached: 0.10, Written: 2.50, Output: 10, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6.1-terra": {Input: 1, Cached: 0.05, Written: 1.25, Output: 5, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-astra":   {Input: 10, Cached: 1, Output: 50, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-sol":     {Input: 2, Cached: 0.20, Written: 2.50, Output: 10, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-6-luna":    {Input: 0.10, Cached: 0.01, Written: 0.125, Output: 0.50, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.6-terra": {Input: 2, Cached: 0.20, Output: 12, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.6-luna":  {Input: 0.20, Cached: 0.02, Output: 1.20, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.5":       {Input: 5, Cached: 0.50, Output: 30, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.4":       {Input: 2.50, Cached: 0.25, Output: 15, Over: 272_000, OverInput: 2, OverOutput: 1.5},
	"gpt-5.4-mini":  {Input: 0.75, Cached: 0.075, Output: 4.50},
	"gpt-5.4-nano":  {Input: 0.20, Cached: 0.02, Output: 1.25},
}

// OpenAI returns the prices of OpenAI's models.
func OpenAI() Prices { return openai }
