package provider

import (
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// functionAttributes are what a function is, as resource and as data.
type functionAttributes struct {
	object
	Runtime         types.String  `tfsdk:"runtime"`
	Entrypoint      types.String  `tfsdk:"entrypoint"`
	CodeHash        types.String  `tfsdk:"code_hash"`
	BuildTimeoutSec types.Int64   `tfsdk:"build_timeout_sec"`
	BuildSecretName types.String  `tfsdk:"build_secret_name"`
	Env             types.Map     `tfsdk:"env"`
	MemoryMB        types.Int64   `tfsdk:"memory_mb"`
	CPU             types.Float64 `tfsdk:"cpu"`
	TimeoutSec      types.Int64   `tfsdk:"timeout_sec"`
	Concurrency     types.Int64   `tfsdk:"concurrency"`
	Replicas        types.Int64   `tfsdk:"replicas"`
	URL             types.String  `tfsdk:"url"`
	Image           types.String  `tfsdk:"image"`
	CodeSHA256      types.String  `tfsdk:"code_sha256"`
	SourceRevision  types.String  `tfsdk:"source_revision"`
	LastBuiltAt     types.String  `tfsdk:"last_built_at"`
}

// functionModel is a sless_function.
type functionModel struct {
	functionAttributes
	functionSource
	managed
	EnvFrom            types.Map   `tfsdk:"env_from"`
	SecretEnv          types.Map   `tfsdk:"secret_env"`
	SecretEnvWO        types.Map   `tfsdk:"secret_env_wo"`
	SecretEnvWOVersion types.Int64 `tfsdk:"secret_env_wo_version"`

	// told is the source that the API is to be told of, and secrets the values; nil leaves what is there.
	told    *rest.Source
	secrets map[string]string
	// stored are the names of the secrets that are there.
	stored []string
}

// functionFields says which attribute a field of the API is.
var functionFields = func() map[string]path.Path {
	fields := attributes("name", "runtime", "entrypoint", "code_hash", "env", "env_from", "secret_env", "memory_mb", "cpu", "timeout_sec",
		"concurrency", "replicas", "build_timeout_sec", "build_secret_name")
	for _, source := range []string{"inline", "s3", "http", "git", "image"} {
		fields["source."+source] = path.Root(source)
	}
	for block, names := range map[string]map[string]attr.Type{"s3": s3Types, "http": httpTypes, "git": gitTypes} {
		for name := range names {
			fields["source."+block+"."+name] = path.Root(block).AtName(name)
		}
	}
	return fields
}()

var envRefType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"secret_name": types.StringType, "config_map_name": types.StringType, "key": types.StringType, "optional": types.BoolType,
}}

func envRefs(value types.Map) map[string]rest.EnvRef {
	refs := map[string]rest.EnvRef{}
	for name, element := range value.Elements() {
		object, ok := element.(types.Object)
		if !ok {
			continue
		}
		field := func(name string) string {
			value, _ := object.Attributes()[name].(types.String)
			return value.ValueString()
		}
		optional, _ := object.Attributes()["optional"].(types.Bool)
		refs[name] = rest.EnvRef{SecretName: field("secret_name"), ConfigMapName: field("config_map_name"), Key: field("key"), Optional: optional.ValueBool()}
	}
	return refs
}

// envRefsValue keeps an "optional" that was false rather than null.
func envRefsValue(refs map[string]rest.EnvRef, before types.Map) types.Map {
	if len(refs) == 0 {
		if !before.IsNull() && !before.IsUnknown() && len(before.Elements()) == 0 {
			return before
		}
		return types.MapNull(envRefType)
	}
	all := map[string]attr.Value{}
	for name, ref := range refs {
		optional := types.BoolNull()
		if ref.Optional {
			optional = types.BoolValue(true)
		} else if object, ok := before.Elements()[name].(types.Object); ok {
			if was, ok := object.Attributes()["optional"].(types.Bool); ok && !was.IsNull() {
				optional = types.BoolValue(false)
			}
		}
		all[name] = types.ObjectValueMust(envRefType.AttrTypes, map[string]attr.Value{
			"secret_name": text(ref.SecretName), "config_map_name": text(ref.ConfigMapName), "key": text(ref.Key), "optional": optional,
		})
	}
	return types.MapValueMust(envRefType, all)
}

func (m *functionModel) wire() rest.Function {
	fn := rest.Function{
		Name: m.Name.ValueString(), Runtime: m.Runtime.ValueString(), Entrypoint: m.Entrypoint.ValueString(), Source: m.told, CodeHash: m.CodeHash.ValueString(),
		Env: texts(m.Env), SecretEnv: m.secrets, MemoryMB: m.MemoryMB.ValueInt64Pointer(), CPU: m.CPU.ValueFloat64Pointer(),
		TimeoutSec: small(m.TimeoutSec), Concurrency: small(m.Concurrency), Replicas: small(m.Replicas),
		BuildSec: small(m.BuildTimeoutSec), BuildSecret: m.BuildSecretName.ValueString(),
	}
	if refs := envRefs(m.EnvFrom); len(refs) > 0 {
		fn.EnvFrom = refs
	}
	return fn
}

func (m *functionModel) refresh(fn *rest.Function) {
	m.functionAttributes.refresh(fn)
	m.refreshSource(fn.Source)
	m.EnvFrom = envRefsValue(fn.EnvFrom, m.EnvFrom)
	m.refreshSecrets(fn.SecretKeys)
}

func (m *functionAttributes) refresh(fn *rest.Function) {
	m.refreshName(fn.Namespace, fn.Name)
	m.Runtime, m.Entrypoint = text(fn.Runtime), orText(fn.Entrypoint, "handler.handle")
	m.Env = textMap(fn.Env, m.Env)
	m.MemoryMB, m.CPU = types.Int64PointerValue(fn.MemoryMB), types.Float64PointerValue(fn.CPU)
	m.TimeoutSec, m.BuildTimeoutSec, m.BuildSecretName = orElse(integer(fn.TimeoutSec), 60), orElse(integer(fn.BuildSec), 300), text(fn.BuildSecret)
	m.Concurrency, m.Replicas = integer(fn.Concurrency), replicas(fn)
	m.refreshFacts(fn)
}

func replicas(fn *rest.Function) types.Int64 { return orElse(integer(fn.Replicas), 1) }

// refreshFacts takes over what the platform has made of it. The hash is that of the code that is deployed, so that a plan shows a
// change that has not come through.
func (m *functionAttributes) refreshFacts(fn *rest.Function) {
	status := fn.Status
	if status == nil {
		status = &rest.FunctionStatus{}
	}
	m.CodeHash, m.Phase, m.URL = text(status.CodeHash), text(status.Phase), text(status.URL)
	m.CodeSHA256, m.SourceRevision, m.LastBuiltAt = text(status.CodeSHA256), text(status.SourceRevision), moment(status.LastBuiltAt)
	m.Image = text(status.Image)
	if fn.Source != nil && fn.Source.Image != "" {
		m.Image = types.StringValue(fn.Source.Image)
	}
	if m.Replicas.IsUnknown() {
		m.Replicas = replicas(fn)
	}
}

func (m *functionModel) keepPlanned(plan *functionModel) {
	m.CodeHash, m.Image, m.CodeSHA256 = known(m.CodeHash, plan.CodeHash), known(m.Image, plan.Image), known(m.CodeSHA256, plan.CodeSHA256)
	m.SourceRevision, m.LastBuiltAt = known(m.SourceRevision, plan.SourceRevision), known(m.LastBuiltAt, plan.LastBuiltAt)
	m.Phase, m.URL = known(m.Phase, plan.Phase), known(m.URL, plan.URL)
}

// refreshSecrets compares names, which is all that the API shows: what is missing goes, and what is too much comes without a value, so
// that the plan shows both.
func (m *functionModel) refreshSecrets(names []string) {
	if m.SecretEnv.IsNull() || m.SecretEnv.IsUnknown() {
		return
	}
	before, now := texts(m.SecretEnv), map[string]string{}
	for _, name := range names {
		now[name] = before[name]
	}
	if !maps.Equal(before, now) {
		m.SecretEnv = textMap(now, m.SecretEnv)
	}
}
