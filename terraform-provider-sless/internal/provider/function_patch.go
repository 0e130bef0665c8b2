package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/naeel/sless/api/rest"
)

// patch is the merge patch that makes of a state what was planned, with null for what goes. It uploads code first when that is another;
// source is what came of it.
func (r *functionResource) patch(ctx context.Context, plan, state, config *functionModel, diags *diag.Diagnostics) (patch map[string]any, source *rest.Source) {
	patch = map[string]any{}
	set := func(name string, planned, before attr.Value, value any) {
		if !planned.Equal(before) {
			patch[name] = value
		}
	}
	wire := plan.wire()
	set("runtime", plan.Runtime, state.Runtime, plan.Runtime.ValueStringPointer())
	set("entrypoint", plan.Entrypoint, state.Entrypoint, wire.Entrypoint)
	set("env", plan.Env, state.Env, replaced(wire.Env, texts(state.Env)))
	set("env_from", plan.EnvFrom, state.EnvFrom, replacedRefs(wire.EnvFrom, envRefs(state.EnvFrom)))
	set("memory_mb", plan.MemoryMB, state.MemoryMB, wire.MemoryMB)
	set("cpu", plan.CPU, state.CPU, wire.CPU)
	set("timeout_sec", plan.TimeoutSec, state.TimeoutSec, wire.TimeoutSec)
	set("concurrency", plan.Concurrency, state.Concurrency, wire.Concurrency)
	set("build_timeout_sec", plan.BuildTimeoutSec, state.BuildTimeoutSec, wire.BuildSec)
	if !config.Replicas.IsNull() {
		set("replicas", plan.Replicas, state.Replicas, wire.Replicas)
	}
	r.patchSecrets(ctx, patch, plan, state, config, diags)
	if plan.CodeHash.IsUnknown() || plan.sourceChanges(config, state) {
		source = r.patchSource(ctx, patch, plan, state, config, diags)
	}
	return patch, source
}

func (r *functionResource) patchSource(ctx context.Context, patch map[string]any, plan, state, config *functionModel, diags *diag.Diagnostics) *rest.Source {
	source, mark, sourceDiags := config.source(ctx, r.platform.client, plan.Namespace.ValueString(), plan.CodeHash)
	diags.Append(sourceDiags...)
	if diags.HasError() {
		return nil
	}
	plan.CodeHash = mark
	change := map[string]any{"inline": nil, "s3": nil, "image": nil}
	switch {
	case source.S3 != nil:
		s3 := source.S3
		change["s3"] = map[string]any{
			"key": s3.Key, "bucket": orNil(s3.Bucket), "endpoint": orNil(s3.Endpoint), "region": orNil(s3.Region),
			"version_id": orNil(s3.VersionID), "sha256": orNil(s3.SHA256), "secret_name": orNil(s3.SecretName),
		}
	case source.Inline != nil:
		change["inline"] = replaced(source.Inline, texts(state.Inline))
	default:
		change["image"] = source.Image
	}
	patch["source"] = change
	patch["code_hash"] = plan.CodeHash.ValueStringPointer()
	return source
}

// patchSecrets writes secrets whose values are in the state, or whose version is. Names that only the platform knows are asked for.
func (r *functionResource) patchSecrets(ctx context.Context, patch map[string]any, plan, state, config *functionModel, diags *diag.Diagnostics) {
	if plan.SecretEnv.Equal(state.SecretEnv) && plan.SecretEnvWOVersion.Equal(state.SecretEnvWOVersion) {
		return
	}
	wanted := texts(plan.SecretEnv)
	if !config.SecretEnvWO.IsNull() {
		wanted = texts(config.SecretEnvWO)
	}
	stored, err := r.platform.client.Functions(state.Namespace.ValueString()).Get(ctx, state.Name.ValueString(), rest.Fresh())
	if err != nil {
		addError(diags, "Function "+state.ID.ValueString()+" can't be read", err, nil)
		return
	}
	before := map[string]string{}
	for _, name := range stored.Object.SecretKeys {
		before[name] = ""
	}
	patch["secret_env"] = replaced(wanted, before)
}

// replaced is a merge patch that makes one map of another.
func replaced(wanted, before map[string]string) map[string]any {
	change := map[string]any{}
	for name := range before {
		change[name] = nil
	}
	for name, value := range wanted {
		change[name] = value
	}
	return change
}

func replacedRefs(wanted, before map[string]rest.EnvRef) map[string]any {
	change := map[string]any{}
	for name := range before {
		change[name] = nil
	}
	for name, ref := range wanted {
		change[name] = map[string]any{
			"secret_name": orNil(ref.SecretName), "config_map_name": orNil(ref.ConfigMapName), "key": ref.Key, "optional": ref.Optional,
		}
	}
	return change
}

func orNil(value string) any {
	if value == "" {
		return nil
	}
	return value
}
