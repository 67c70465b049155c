// Package price has the prices of tokens of hosted models.
//
//	p := price.Anthropic().Find("claude-opus-5-5") // nil for a model that is not in the table
//	usage := price.Tokens{Input: 1200, Output: 80}.Usage(p)
//	model, usd := price.OpenAI().Most(price.Tokens{Input: 1200, Output: 80}) // of a model that is not known
//
// The tables are list prices on a date. They are not changed after the start and have nothing to
// close. The package must not know any vendor's messages, or who pays.
package price
