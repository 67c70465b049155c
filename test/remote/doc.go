// Package remote tests the backends whose sandboxes run at a service: e2b against a second Hortus, which serves E2B's
// API, and daytona against a server that is written from the service's OpenAPI document. A third server lies.
package remote
