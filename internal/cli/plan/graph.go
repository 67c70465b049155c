package plan

import (
	"fmt"
	"html"
	"strings"

	words "hortus.dev/api/plan"
	"hortus.dev/internal/cli/human"
)

// colours are the fills of items in pictures, by their states.
var colours = map[words.ItemState]string{
	words.Pending: "#f0f0f0", words.InProgress: "#cfe2ff", words.Completed: "#d1e7dd", words.Skipped: "#e2e3e5", words.Failed: "#f8d7da",
}

// specs are the items of a plan as they were requested.
func specs(p words.Plan) (out []words.Item) {
	for _, it := range p.Items {
		out = append(out, it.Item)
	}
	return out
}

// graph draws the order of the items as text: a column for each group of items that can be done at the same time.
func graph(p words.Plan) string {
	var b strings.Builder
	for i, level := range words.Levels(specs(p)) {
		var names []string
		for _, it := range level {
			name := it.ID
			if i > 0 {
				name += " <- " + strings.Join(it.Needs, ", ")
			}
			names = append(names, name)
		}
		fmt.Fprintf(&b, "  %d  %s\n", i+1, strings.Join(names, "\n     "))
	}
	return b.String()
}

// mermaid draws the graph as a Mermaid diagram.
func mermaid(p words.Plan) string {
	var b strings.Builder
	b.WriteString("graph TD\n")
	for _, it := range p.Items {
		title := strings.NewReplacer(`"`, "#quot;", "<", "&lt;", ">", "&gt;").Replace(human.Truncate(it.Name(), 50))
		fmt.Fprintf(&b, "  %s[\"%s: %s (%s)\"]\n", node(it.ID), it.ID, title, strings.ReplaceAll(string(it.State), "_", " "))
		fmt.Fprintf(&b, "  style %s fill:%s\n", node(it.ID), colours[it.State])
	}
	for _, it := range p.Items {
		for _, need := range it.Needs {
			fmt.Fprintf(&b, "  %s --> %s\n", node(need), node(it.ID))
		}
	}
	return b.String()
}

// node is an id as Mermaid takes it: "end" and others are words of its own.
func node(id string) string { return "n_" + strings.ReplaceAll(id, "-", "_") }

// svg draws the graph as a picture: a row for each group of items that can be done at the same time.
func svg(p words.Plan) string {
	const width, height, gapX, gapY, margin = 200, 46, 20, 50, 10
	type point struct{ x, y int }
	at := map[string]point{}
	levels := words.Levels(specs(p))
	widest := 1
	for y, level := range levels {
		widest = max(widest, len(level))
		for x, it := range level {
			at[it.ID] = point{margin + x*(width+gapX), margin + y*(height+gapY)}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" role="img"><title>%s</title>`+"\n",
		2*margin+widest*(width+gapX)-gapX, 2*margin+len(levels)*(height+gapY)-gapY, html.EscapeString(human.Truncate(p.Task.Request, 100)))
	for _, it := range p.Items {
		for _, need := range it.Needs {
			from, to := at[need], at[it.ID]
			fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#888"/>`+"\n", from.x+width/2, from.y+height, to.x+width/2, to.y)
		}
	}
	for _, it := range p.Items {
		c := at[it.ID]
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#888"/>`+"\n", c.x, c.y, width, height, colours[it.State])
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text><text x="%d" y="%d" fill="#555">%s</text>`+"\n", c.x+8, c.y+19, html.EscapeString(it.ID),
			c.x+8, c.y+36, html.EscapeString(human.Truncate(strings.ReplaceAll(string(it.State), "_", " ")+": "+it.Name(), 30)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
