package provider

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/naeel/sless/api/rest"
)

// prepareFunction finds what the API has to be told of code and secrets. Code that the provider brings is uploaded for that.
func prepareFunction(ctx context.Context, client *rest.Client, plan, config, state *functionModel, diags *diag.Diagnostics) {
	if state == nil || plan.CodeHash.IsUnknown() || plan.sourceChanges(config, state) {
		config.bring(ctx, client, plan, diags)
	}
	if state != nil && plan.SecretEnv.Equal(state.SecretEnv) && plan.SecretEnvWOVersion.Equal(state.SecretEnvWOVersion) {
		return
	}
	plan.secrets = map[string]string{}
	maps.Copy(plan.secrets, texts(plan.SecretEnv))
	maps.Copy(plan.secrets, texts(config.SecretEnvWO)) // one of the two is null
	if state == nil || diags.HasError() {
		return
	}
	// Names that only the platform knows are to go too.
	namespace, name := state.Namespace.ValueString(), state.Name.ValueString()
	stored, err := client.Functions(namespace).Get(ctx, name, rest.Fresh())
	if err != nil {
		addError(diags, functions.what(namespace, name)+" can't be read", err, nil)
		return
	}
	plan.stored = stored.Object.SecretKeys
}

func (m *functionModel) patch(state *functionModel) map[string]any {
	patch, wire := changes{}, m.wire()
	patch.set("runtime", m.Runtime, state.Runtime, m.Runtime.ValueStringPointer())
	patch.set("entrypoint", m.Entrypoint, state.Entrypoint, wire.Entrypoint)
	patch.set("env", m.Env, state.Env, replaced(wire.Env, texts(state.Env)))
	patch.set("env_from", m.EnvFrom, state.EnvFrom, replacedRefs(wire.EnvFrom, envRefs(state.EnvFrom)))
	patch.set("memory_mb", m.MemoryMB, state.MemoryMB, wire.MemoryMB)
	patch.set("cpu", m.CPU, state.CPU, wire.CPU)
	patch.set("timeout_sec", m.TimeoutSec, state.TimeoutSec, wire.TimeoutSec)
	patch.set("concurrency", m.Concurrency, state.Concurrency, wire.Concurrency)
	patch.set("replicas", m.Replicas, state.Replicas, wire.Replicas)
	patch.set("build_timeout_sec", m.BuildTimeoutSec, state.BuildTimeoutSec, wire.BuildSec)
	patch.set("build_secret_name", m.BuildSecretName, state.BuildSecretName, m.BuildSecretName.ValueStringPointer())
	if m.secrets != nil {
		before := map[string]string{}
		for _, name := range m.stored {
			before[name] = ""
		}
		patch["secret_env"] = replaced(m.secrets, before)
	}
	if m.told != nil {
		patch["source"] = sourcePatch(m.told, texts(state.Inline))
		patch["code_hash"] = m.CodeHash.ValueStringPointer()
	} else if !m.S3.Equal(state.S3) {
		patch["source"] = map[string]any{"s3": map[string]any{"poll_interval_sec": m.named().S3.PollSec}}
	}
	return patch
}

// keyOf is the key of the archive that the provider has uploaded, as the private state keeps it; nil when no source was told.
func keyOf(source *rest.Source) []byte {
	if source == nil {
		return nil
	}
	key := ""
	if source.S3 != nil {
		key = source.S3.Key
	}
	encoded, _ := json.Marshal(key) // a string always encodes
	return encoded
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
