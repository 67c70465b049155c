package repo

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
)

// Preparation is what several sandboxes of a task begin with.
type Preparation struct {
	Sandbox  api.CreateSandbox
	Layers   []Layer
	Access   []filerule.Access
	Services []Service
	// Of is how many sandboxes there are at most; 0 if that is not known.
	Of int
}

// Preparer is a [Computers] that can start services once for several sandboxes, by a fork of one in which they run.
type Preparer interface {
	// Prepare says what sandboxes of a task begin with. Until end is called, Workspace over these layers may return a
	// workspace for which there is such a sandbox already: the first Open of it with the same request returns it, as a [Serving].
	// Where that cannot be, both do what they do otherwise. Nothing is started before the first of these calls.
	// end ends what was started and not opened, and returns how many processes may be left.
	Prepare(task api.TaskID, p Preparation) (end func(context.Context) (left int))
}

// Serving is a [Computer] in which the services run already. They were ready when it was made.
type ServiceSandbox interface {
	Sandbox
	// Serves is for the type only.
	Serves()
}

// endTime bounds the end of what was prepared.
const prepareEndTime = time.Minute

// Prepare calls Prepare of computers that can, if there are services. leave, which may be called in any case, also after the end of its
// context, ends it and tells closed how many processes may be left.
func prepareServices(c Sandboxes, task api.TaskID, p Preparation, closed func(left int)) (leave func(context.Context)) {
	of, ok := c.(Preparer)
	if !ok || len(p.Services) == 0 {
		return func(context.Context) {}
	}
	end := of.Prepare(task, p)
	return func(ctx context.Context) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), prepareEndTime)
		defer cancel()
		closed(end(late))
	}
}

// Ready waits until services that were started can be used.
func Ready(ctx context.Context, box Sandbox, services []Service) error {
	for _, s := range services {
		if err := awaitReady(ctx, box, s); err != nil {
			return err
		}
	}
	return nil
}
