package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// ValidateConfig implements resource.ResourceWithValidateConfig: the rules between attributes.
func (r *functionResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config functionModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.checkSource(&resp.Diagnostics)
	config.checkVariables(&resp.Diagnostics)
}

func (m *functionModel) checkSource(diags *diag.Diagnostics) {
	set, unknown := 0, false
	for _, source := range []interface {
		IsNull() bool
		IsUnknown() bool
	}{m.SourceDir, m.Filename, m.Inline, m.S3, m.Image} {
		if source.IsUnknown() {
			unknown = true
		} else if !source.IsNull() {
			set++
		}
	}
	if set > 1 || (set == 0 && !unknown) {
		diags.AddError("Not one source of code", "Exactly one of source_dir, filename, inline, s3 and image must be set.")
	}
	if m.Runtime.IsNull() && m.Image.IsNull() {
		diags.AddAttributeError(path.Root("runtime"), "The runtime is missing", "runtime is required unless image is set, for example python3.11.")
	}
	if !m.Excludes.IsNull() && m.SourceDir.IsNull() {
		diags.AddAttributeError(path.Root("excludes"), "Nothing to exclude from", "excludes needs source_dir.")
	}
	if !m.Inline.IsUnknown() {
		size := 0
		for _, content := range texts(m.Inline) {
			size += len(content)
		}
		if size > 96<<10 {
			diags.AddAttributeError(path.Root("inline"), "Too much inline code", "The files together must not be larger than 96 KiB; put them in a folder and use source_dir.")
		}
	}
	if source := m.s3Source(); source != nil {
		for name, value := range map[string]string{"bucket": source.Bucket, "endpoint": source.Endpoint} {
			if secret, ok := m.S3.Attributes()["secret_name"]; ok && value != "" && secret.IsNull() {
				diags.AddAttributeError(path.Root("s3").AtName(name), "secret_name is missing", name+" needs secret_name: the platform's own credentials are for its own bucket only.")
			}
		}
	}
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

// ModifyPlan implements resource.ResourceWithModifyPlan. It says what the code's hash will be, and what else will be another because of
// it: a plan shows as unknown what changes, and nothing more.
func (r *functionResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // being destroyed: the code need not be there any more
	}
	var plan, config functionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	var state *functionModel
	if !req.State.Raw.IsNull() {
		state = &functionModel{}
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	before := types.StringNull()
	if state != nil {
		before = state.Namespace
	}
	var replace bool
	if plan.Namespace, replace = planNamespace(r.platform, config.Namespace, before); replace {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("namespace"))
	}
	plan.ID = joinID(plan.Namespace, plan.Name)
	var diags diag.Diagnostics
	plan.CodeHash, diags = config.plannedHash(ctx, state != nil)
	resp.Diagnostics.Append(diags...)
	plan.planFacts(&config, state)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// planFacts plans what the platform makes.
func (m *functionModel) planFacts(config, state *functionModel) {
	if state == nil {
		m.Phase, m.URL, m.CodeSHA256, m.LastBuiltAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
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
	builds := sourceChanges || !m.Runtime.Equal(state.Runtime)
	if config.Image.IsNull() {
		m.Image = state.Image
		if builds {
			m.Image = types.StringUnknown()
		}
	}
	m.CodeSHA256, m.LastBuiltAt = state.CodeSHA256, state.LastBuiltAt
	if builds {
		m.CodeSHA256, m.LastBuiltAt = types.StringUnknown(), types.StringUnknown()
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
	return !m.CodeHash.Equal(state.CodeHash) || !m.Inline.Equal(state.Inline) || !m.S3.Equal(state.S3) ||
		(!config.Image.IsNull() && !config.Image.Equal(state.Image))
}

// settingsChange says whether something changes that is written to the platform, the code aside.
func (m *functionModel) settingsChange(state *functionModel) bool {
	return !m.Entrypoint.Equal(state.Entrypoint) || !m.BuildTimeoutSec.Equal(state.BuildTimeoutSec) ||
		!m.Env.Equal(state.Env) || !m.EnvFrom.Equal(state.EnvFrom) || !m.SecretEnv.Equal(state.SecretEnv) ||
		!m.SecretEnvWOVersion.Equal(state.SecretEnvWOVersion) || !m.MemoryMB.Equal(state.MemoryMB) || !m.CPU.Equal(state.CPU) ||
		!m.TimeoutSec.Equal(state.TimeoutSec) || !m.Concurrency.Equal(state.Concurrency) || !m.Replicas.Equal(state.Replicas)
}
