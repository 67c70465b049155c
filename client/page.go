package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"hortus.dev/api"
)

// headerNext is the header that says where the next page of a list begins.
const headerNext = "X-Next-Cursor"

// readPage reads one page of a list, and gives where the next one begins, "" after the
// last. A daemon from before there were pages answers with the whole list.
func readPage[T any](ctx context.Context, c *Client, path string, q url.Values, p api.PageRequest) (rows []T, next string, err error) {
	query := url.Values{}
	for k, v := range q {
		query[k] = v
	}
	if p.Limit > 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	resp, err := c.request(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&rows); err != nil {
		return nil, "", api.Errorf(api.KindInternal, "cannot parse the daemon's answer to %s: %w", path, err)
	}
	return rows, resp.Header.Get(headerNext), nil
}

// walk yields the rows of a list, page by page.
func walk[T any](ctx context.Context, c *Client, path string, q url.Values) iter.Seq2[T, error] {
	return api.Pages(ctx, func(ctx context.Context, p api.PageRequest) ([]T, string, error) {
		return readPage[T](ctx, c, path, q, p)
	})
}

// collect returns the first rows of a list; most 0 means all.
func collect[T any](ctx context.Context, c *Client, path string, q url.Values, most int) ([]T, error) {
	out := []T{}
	for v, err := range walk[T](ctx, c, path, q) {
		if err != nil {
			return nil, err
		}
		if out = append(out, v); len(out) == most {
			break
		}
	}
	return out, nil
}

// first returns the newest rows of a list; limit 0 leaves the number to the daemon.
func first[T any](ctx context.Context, c *Client, path string, q url.Values, limit int) ([]T, error) {
	if limit > 0 {
		return collect[T](ctx, c, path, q, limit)
	}
	rows, _, err := readPage[T](ctx, c, path, q, api.PageRequest{})
	return rows, err
}

// whether is the query of a list that has what ended too if it is requested.
func whether(all bool) url.Values {
	q := url.Values{}
	if all {
		q.Set("all", "1")
	}
	return q
}

// All yields sandboxes, the newest first, page by page: those that live, or
// all. It ends with the first error.
func (s *SandboxService) All(ctx context.Context, all bool) iter.Seq2[api.Sandbox, error] {
	return walk[api.Sandbox](ctx, s.client, "/v1/sandboxes", whether(all))
}

// All yields tasks, the newest first, page by page. It ends with the first error.
func (s *TaskService) All(ctx context.Context) iter.Seq2[api.Task, error] {
	return walk[api.Task](ctx, s.client, "/v1/tasks", nil)
}
