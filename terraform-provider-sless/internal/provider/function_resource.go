package provider

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// buildMargin is how much longer than a build the provider waits.
const buildMargin = 2 * time.Minute

func newFunctionResource() resource.Resource {
	return &objectResource[rest.Function, functionModel, *functionModel]{
		kind: functions, schema: functionSchema, fields: functionFields, prepare: prepareFunction, await: awaitFunction,
		create: func(ctx context.Context, functions rest.Resource[rest.Function], wire rest.Function) (rest.Stored[rest.Function], error) {
			return createOnce(ctx, functions, wire.Name, wire, sameFunction)
		},
		same:     sameFunction,
		patience: (*functionModel).patience,
		remember: func(m *functionModel) []byte { return keyOf(m.told) },
		recall: func(m *functionModel, fn *rest.Function, uploaded []byte) {
			if m.uploads() && len(uploaded) > 0 && !bytes.Equal(uploaded, keyOf(fn.Source)) {
				m.CodeHash = types.StringNull() // somebody else's code is there, whatever its mark says
			}
		},
	}
}

// sameFunction says whether a function that exists is what was asked for.
func sameFunction(asked, present *rest.Function) bool {
	return asked.CodeHash == present.CodeHash && asked.Runtime == present.Runtime && reflect.DeepEqual(asked.Source, present.Source) &&
		len(asked.Env) == len(present.Env) && len(asked.SecretEnv) == len(present.SecretKeys)
}

// patience is how long to wait for a build and what comes after it.
func (m *functionModel) patience() time.Duration {
	return time.Duration(m.BuildTimeoutSec.ValueInt64())*time.Second + buildMargin
}

// awaitFunction waits until this generation of a function serves.
func awaitFunction(ctx context.Context, client *rest.Client, _ *functionModel, written *rest.Function, wait time.Duration, diags *diag.Diagnostics) *rest.Function {
	seen, err := functions.follow(ctx, client, written, wait, functionProgress)
	switch {
	case err != nil:
		diags.AddError(functions.unended(err, seen))
	case seen.Status.Phase == rest.FunctionFailed:
		diags.AddError(functions.what(seen.Namespace, seen.Name)+" does not serve: "+seen.Status.Reason, failureOf(seen.Status))
	}
	return seen
}

func functionProgress(seen *rest.Function) progress {
	switch seen.Status.Phase {
	case rest.FunctionReady:
		if seen.Status.CodeHash == seen.CodeHash {
			return done
		}
		return near
	case rest.FunctionFailed:
		return done
	case rest.FunctionDeploying:
		return near
	}
	return far
}

// failureOf is the platform's message with the last lines of the build's log.
func failureOf(status *rest.FunctionStatus) string {
	message := status.Message
	if status.Build == nil || status.Build.LogTail == "" {
		return message
	}
	lines := strings.Split(strings.TrimRight(status.Build.LogTail, "\n"), "\n")
	const most = 20
	return message + "\n\nThe end of the build's log:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}
