package agent

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

// checkTimeout bounds one check.
const checkTimeout = 30 * time.Second

// outputFile is where checks find what the program wrote, beside the program.
const outputFile = ".hortus-output"

// check runs the plan's checks in the sandbox of a program that did what was planned. The
// first that fails makes it a program that did not.
func (e *Executor) check(ctx context.Context, box Sandbox, p Pass, res api.ExecutionResult, out *observe.Capture) (api.ExecutionResult, error) {
	whole, _ := out.Bytes()
	if err := box.WriteFile(ctx, outputFile, whole, false); err != nil {
		return res, err
	}
	for _, c := range p.Checks {
		e.cfg.Emit.Emit(ctx, api.EventPhase, api.PhaseEvent{Attempt: p.N, Phase: api.PhaseVerify, Command: c.Command})
		said := &observe.Capture{}
		ex, err := box.Run(ctx, api.ExecRequest{
			Args: []string{"bash", "-c", packages(p.Artifact) + c.Command}, Env: map[string]string{"OUTPUT": outputFile},
			TimeoutMS: checkTimeout.Milliseconds(), Tag: string(api.PhaseVerify),
		}, func(_ string, piece []byte) error {
			_, err := said.Write(piece)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && ex.State == api.ExecUnknown && ex.Exit.Cause == "" {
			err = api.Errorf(api.KindUnavailable, "the result of a check in sandbox %s is unknown", ex.Sandbox)
		}
		if err != nil {
			return res, err
		}
		r := api.CheckResult{Name: c.Name, Passed: ex.Exit.Code == 0 && ex.Exit.Cause == ""}
		if !r.Passed {
			r.Output = said.Text()
			res.OK, res.Phase, res.Category = false, api.PhaseVerify, api.CategoryWrongOutput
			how := fmt.Sprintf("exit %d", ex.Exit.Code)
			if ex.Exit.Cause != "" {
				how = ex.Exit.Cause
			}
			res.Detail = fmt.Sprintf("the check %q failed (%s): %s", clip(c.Name, 256), how, clip(c.Command, 512))
		}
		if res.Checks = append(res.Checks, r); !r.Passed {
			break
		}
	}
	return res, nil
}
