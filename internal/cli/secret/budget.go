package secret

import (
	"cmp"
	"fmt"
	"strings"

	"hortus.dev/api/secrets"
)

// parseBudgets reads --budget.
func parseBudgets(texts []string) (all []secrets.Budget, err error) {
	for _, text := range texts {
		b, err := secrets.ParseBudget(text)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// formatBudgets writes budgets for a column.
func formatBudgets(all []secrets.Budget) string {
	if len(all) == 0 {
		return "-"
	}
	texts := make([]string, len(all))
	for i, b := range all {
		texts[i] = b.String()
	}
	return strings.Join(texts, " ")
}

// showBudgets shows budgets with what was used of them.
func showBudgets(s secrets.Secret, row func(name, value string)) {
	for _, b := range s.Budgets {
		row("budget", b.String()+usedOf(b, s.Spent))
	}
	if s.Spent == nil {
		return
	}
	row("used today", formatAmounts(s.Spent.Today))
	row("used in total", formatAmounts(s.Spent.Total))
	for _, t := range s.Spent.Tasks {
		row("used by", t.Task+": "+formatAmounts(t.Amounts))
	}
}

// usedOf is what was used of a budget.
func usedOf(b secrets.Budget, s *secrets.Spent) string {
	if s == nil {
		return ""
	}
	used := func(a secrets.Amounts) string {
		n := a.In(b.Unit)
		if n >= b.Limit() {
			return fmt.Sprintf("used up: %s", secrets.FormatAmount(b.Unit, n))
		}
		return fmt.Sprintf("%s used, %s left", secrets.FormatAmount(b.Unit, n), secrets.FormatAmount(b.Unit, b.Limit()-n))
	}
	switch b.Per {
	case secrets.PerDay:
		return ": " + used(s.Today)
	case secrets.PerTotal:
		return ": " + used(s.Total)
	}
	if len(s.Tasks) == 0 {
		return ": not used"
	}
	most := s.Tasks[0]
	for _, t := range s.Tasks {
		if t.In(b.Unit) > most.In(b.Unit) {
			most = t
		}
	}
	return fmt.Sprintf(": %s by %s", used(most.Amounts), most.Task)
}

func formatAmounts(a secrets.Amounts) string {
	return fmt.Sprintf("%d requests, %d tokens, %s", a.Requests, a.Tokens, secrets.FormatAmount(secrets.USD, a.MicroUSD))
}

// formatUsage writes what a request to a model used.
func formatUsage(u secrets.Usage) string {
	text := fmt.Sprintf("%s: %d tokens in, %d out, %s", cmp.Or(u.Model, "a model"), u.InputTokens, u.OutputTokens, secrets.FormatAmount(secrets.USD, u.MicroUSD))
	if u.PricedAs != "" {
		text += " at the price of " + u.PricedAs
	}
	if u.Estimated {
		text += ", estimated"
	}
	return text
}
