package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

func (m *functionModel) check(diags *diag.Diagnostics) {
	m.checkSource(diags)
	m.checkVariables(diags)
}

// checkVariables refuses a variable that is set in two places, and references to two things or none.
func (m *functionModel) checkVariables(diags *diag.Diagnostics) {
	places := map[string]string{}
	for _, place := range []struct {
		name  string
		value types.Map
	}{{"env", m.Env}, {"env_from", m.EnvFrom}, {"secret_env", m.SecretEnv}, {"secret_env_wo", m.SecretEnvWO}} {
		for name := range place.value.Elements() {
			if other, taken := places[name]; taken {
				diags.AddAttributeError(path.Root(place.name).AtMapKey(name), "The variable is set twice", "It is in "+other+" too; keep one of them.")
			}
			places[name] = place.name
		}
	}
	if !m.SecretEnv.IsNull() && !m.SecretEnvWO.IsNull() {
		diags.AddAttributeError(path.Root("secret_env_wo"), "Two sets of secrets", "Only one of secret_env and secret_env_wo can be set.")
	}
	if m.SecretEnvWO.IsNull() != m.SecretEnvWOVersion.IsNull() {
		diags.AddAttributeError(path.Root("secret_env_wo_version"), "Half of a pair", "secret_env_wo and secret_env_wo_version are set together; another version writes the values again.")
	}
	for name, element := range m.EnvFrom.Elements() {
		object, ok := element.(types.Object)
		if !ok || object.IsNull() || object.IsUnknown() {
			continue
		}
		secret, config := object.Attributes()["secret_name"], object.Attributes()["config_map_name"]
		if !secret.IsUnknown() && !config.IsUnknown() && secret.IsNull() == config.IsNull() {
			diags.AddAttributeError(path.Root("env_from").AtMapKey(name), "Not one reference", "Exactly one of secret_name and config_map_name must be set.")
		}
	}
}

// foresee plans the code's hash, and what will be another because of it.
func (m *functionModel) foresee(_ context.Context, config, state *functionModel, diags *diag.Diagnostics) {
	hash, found := config.plannedHash(state != nil)
	diags.Append(found...)
	m.CodeHash = hash
	if state == nil {
		m.Phase, m.URL = types.StringUnknown(), types.StringUnknown()
		m.CodeSHA256, m.SourceRevision, m.LastBuiltAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
		if config.Image.IsNull() {
			m.Image = types.StringUnknown()
		}
		if config.Replicas.IsNull() {
			m.Replicas = types.Int64Unknown()
		}
		return
	}
	if config.Replicas.IsNull() {
		m.Replicas = state.Replicas
	}
	sourceChanges := m.sourceChanges(config, state)
	builds := sourceChanges || !m.Runtime.Equal(state.Runtime) || !m.Entrypoint.Equal(state.Entrypoint)
	if config.Image.IsNull() {
		m.Image = state.Image
		if builds {
			m.Image = types.StringUnknown()
		}
	}
	m.CodeSHA256, m.SourceRevision, m.LastBuiltAt = state.CodeSHA256, state.SourceRevision, state.LastBuiltAt
	if builds {
		m.CodeSHA256, m.SourceRevision, m.LastBuiltAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	}
	if !sourceChanges { // the same code from another place is no change
		m.SourceDir, m.Filename = sameCode(m.SourceDir, state.SourceDir), sameCode(m.Filename, state.Filename)
	}
	m.Phase, m.URL = state.Phase, state.URL
	if builds || m.settingsChange(state) || state.Phase.ValueString() == rest.FunctionFailed {
		m.Phase, m.URL = types.StringUnknown(), types.StringUnknown()
	}
}

func sameCode(planned, state types.String) types.String {
	if planned.IsNull() || state.IsNull() {
		return planned
	}
	return state
}

// sourceChanges says whether the platform has to be told of other code.
func (m *functionModel) sourceChanges(config, state *functionModel) bool {
	return !m.CodeHash.Equal(state.CodeHash) || m.reads(&state.functionSource) || (!config.Image.IsNull() && !config.Image.Equal(state.Image))
}

// settingsChange says whether something changes that is written to the platform, the code aside.
func (m *functionModel) settingsChange(state *functionModel) bool {
	return !m.BuildTimeoutSec.Equal(state.BuildTimeoutSec) || !m.BuildSecretName.Equal(state.BuildSecretName) || !m.S3.Equal(state.S3) ||
		!m.Env.Equal(state.Env) || !m.EnvFrom.Equal(state.EnvFrom) || !m.SecretEnv.Equal(state.SecretEnv) ||
		!m.SecretEnvWOVersion.Equal(state.SecretEnvWOVersion) || !m.MemoryMB.Equal(state.MemoryMB) || !m.CPU.Equal(state.CPU) ||
		!m.TimeoutSec.Equal(state.TimeoutSec) || !m.Concurrency.Equal(state.Concurrency) || !m.Replicas.Equal(state.Replicas)
}
