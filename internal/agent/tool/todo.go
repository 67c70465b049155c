package tool

import (
	"context"
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

const todoAbout = `Write your todo list for work with several steps. Each call replaces it.`

func todo() *tool {
	states := []string{loop.TodoPending, loop.TodoActive, loop.TodoDone}
	return &tool{name: "todo", about: todoAbout, input: fields{
		{name: "items", kind: "array", need: true, max: loop.MaxTodo, doc: "All items, in order.", of: fields{
			{name: "text", kind: "string", need: true},
			{name: "state", kind: "string", need: true, enum: states},
		}},
	}, run: func(_ context.Context, in args) (loop.Result, error) {
		count := map[string]int{}
		items, doing := []api.TodoItem{}, ""
		for i, x := range in.list("items") {
			text := visible(strings.Join(strings.Fields(x.str("text")), " "))
			switch {
			case text == "":
				return loop.Result{}, teach("the text of item %d is empty", i+1)
			case len(text) > loop.MaxTodoText:
				return loop.Result{}, teach("the text of item %d has %d bytes; the maximum is %d", i+1, len(text), loop.MaxTodoText)
			}
			state := x.str("state")
			if count[state]++; state == loop.TodoActive && doing == "" {
				doing = ": " + text
			}
			items = append(items, api.TodoItem{Text: text, State: state})
		}
		done := count[loop.TodoDone]
		return loop.Result{
			Text:  fmt.Sprintf("The list has %d items: %d done, %d active, %d pending.", len(items), done, count[loop.TodoActive], count[loop.TodoPending]),
			Short: fmt.Sprintf("todo %d of %d done%s", done, len(items), clip(doing, 100)), Todo: items,
		}, nil
	}}
}
