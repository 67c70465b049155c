package secrets

import (
	"fmt"
	"time"
)

// Amounts are what requests used.
type Amounts struct {
	Requests int64 `json:"requests"`
	Tokens   int64 `json:"tokens"`
	// MicroUSD are millionths of a US dollar.
	MicroUSD int64 `json:"microUsd"`
}

// Plus adds two amounts.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{a.Requests + b.Requests, a.Tokens + b.Tokens, a.MicroUSD + b.MicroUSD}
}

// Minus subtracts.
func (a Amounts) Minus(b Amounts) Amounts {
	return Amounts{a.Requests - b.Requests, a.Tokens - b.Tokens, a.MicroUSD - b.MicroUSD}
}

// In returns an amount as budgets of a unit are counted.
func (a Amounts) In(u Unit) int64 {
	switch u {
	case Requests:
		return a.Requests
	case Tokens:
		return a.Tokens
	}
	return a.MicroUSD
}

// Spent is what requests with a secret used since it has budgets. It includes what is reserved for
// requests that are running.
type Spent struct {
	// Today is the present day in UTC.
	Today Amounts `json:"today"`
	Total Amounts `json:"total"`
	// Tasks are those that used most, at most MaxSpentTasks, the largest first.
	Tasks []TaskSpent `json:"tasks"`
}

// MaxSpentTasks is the maximum number of tasks of a Spent.
const MaxSpentTasks = 10

// TaskSpent is what a task used.
type TaskSpent struct {
	// Task is a task, or the first sandbox of those that were forked or restored from one.
	Task string `json:"task"`
	// At is the time of the last request.
	At time.Time `json:"at"`
	Amounts
}

// Usage is what one request to a model used.
type Usage struct {
	// Model is its name in the answer, or else in the request; empty if neither has one.
	Model string `json:"model,omitempty"`
	// InputTokens include those of caches.
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	MicroUSD     int64 `json:"microUsd"`
	// Estimated is true if the answer did not state the tokens, or was not read to its end: they
	// are an upper estimate.
	Estimated bool `json:"estimated,omitempty"`
	// PricedAs is the model whose prices were used because those of Model are not known: the
	// most expensive one.
	PricedAs string `json:"pricedAs,omitempty"`
}

// Amounts returns the amounts of one request.
func (u Usage) Amounts() Amounts {
	return Amounts{Requests: 1, Tokens: u.InputTokens + u.OutputTokens, MicroUSD: u.MicroUSD}
}

// Spender is whose request is counted.
type Spender struct {
	Account, Secret string
	// Task is the task, or else the first sandbox of a lineage.
	Task string
	// At is when the request began. It says of which day it is.
	At time.Time
}

// Exhausted is the error for a request that a budget does not allow.
type Exhausted struct {
	Budget Budget
	// Used is what is counted, in the unit of Budget.Limit.
	Used int64
	// Busy is true if a part of it is only reserved, for requests that are running.
	Busy bool
}

// Error returns the budget and what was used.
func (e *Exhausted) Error() string {
	if e.Busy {
		return fmt.Sprintf("the rest of the budget %s is reserved for requests that are running", e.Budget)
	}
	return fmt.Sprintf("the budget %s is used up: %s are counted", e.Budget, FormatAmount(e.Budget.Unit, e.Used))
}

// Alarm reports whether a use was refused because a placeholder was where it may not be, or is about
// many answers that were broken off. One that a budget refused is no alarm.
func (u Use) Alarm() bool { return u.Refused != "" && u.Budget == "" }
