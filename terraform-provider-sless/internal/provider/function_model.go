package provider

import (
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/naeel/sless/api/rest"
)

// functionModel is a sless_function.
type functionModel struct {
	ID                 types.String   `tfsdk:"id"`
	Name               types.String   `tfsdk:"name"`
	Namespace          types.String   `tfsdk:"namespace"`
	Runtime            types.String   `tfsdk:"runtime"`
	Entrypoint         types.String   `tfsdk:"entrypoint"`
	SourceDir          types.String   `tfsdk:"source_dir"`
	Excludes           types.List     `tfsdk:"excludes"`
	Filename           types.String   `tfsdk:"filename"`
	Inline             types.Map      `tfsdk:"inline"`
	S3                 types.Object   `tfsdk:"s3"`
	Image              types.String   `tfsdk:"image"`
	CodeHash           types.String   `tfsdk:"code_hash"`
	BuildTimeoutSec    types.Int64    `tfsdk:"build_timeout_sec"`
	Env                types.Map      `tfsdk:"env"`
	EnvFrom            types.Map      `tfsdk:"env_from"`
	SecretEnv          types.Map      `tfsdk:"secret_env"`
	SecretEnvWO        types.Map      `tfsdk:"secret_env_wo"`
	SecretEnvWOVersion types.Int64    `tfsdk:"secret_env_wo_version"`
	MemoryMB           types.Int64    `tfsdk:"memory_mb"`
	CPU                types.Float64  `tfsdk:"cpu"`
	TimeoutSec         types.Int64    `tfsdk:"timeout_sec"`
	Concurrency        types.Int64    `tfsdk:"concurrency"`
	Replicas           types.Int64    `tfsdk:"replicas"`
	Phase              types.String   `tfsdk:"phase"`
	URL                types.String   `tfsdk:"url"`
	CodeSHA256         types.String   `tfsdk:"code_sha256"`
	LastBuiltAt        types.String   `tfsdk:"last_built_at"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`
}

// functionFields says which attribute a field of the API is.
var functionFields = func() map[string]path.Path {
	fields := attributes("name", "runtime", "entrypoint", "code_hash", "env", "env_from", "secret_env", "memory_mb", "cpu", "timeout_sec",
		"concurrency", "replicas", "build_timeout_sec")
	for _, source := range []string{"inline", "s3", "image"} {
		fields["source."+source] = path.Root(source)
	}
	return fields
}()

var s3Types = map[string]attr.Type{
	"key": types.StringType, "bucket": types.StringType, "endpoint": types.StringType, "region": types.StringType,
	"version_id": types.StringType, "sha256": types.StringType, "secret_name": types.StringType,
}

var envRefType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"secret_name": types.StringType, "config_map_name": types.StringType, "key": types.StringType, "optional": types.BoolType,
}}

// uploads says whether the provider brings the code itself.
func (m *functionModel) uploads() bool { return !m.SourceDir.IsNull() || !m.Filename.IsNull() }

// s3Source is the source, nil when null.
func (m *functionModel) s3Source() *rest.S3Source {
	if m.S3.IsNull() || m.S3.IsUnknown() {
		return nil
	}
	field := func(name string) string {
		value, _ := m.S3.Attributes()[name].(types.String)
		return value.ValueString()
	}
	return &rest.S3Source{
		Key: field("key"), Bucket: field("bucket"), Endpoint: field("endpoint"), Region: field("region"),
		VersionID: field("version_id"), SHA256: field("sha256"), SecretName: field("secret_name"),
	}
}

func s3Value(source *rest.S3Source) types.Object {
	return types.ObjectValueMust(s3Types, map[string]attr.Value{
		"key": text(source.Key), "bucket": text(source.Bucket), "endpoint": text(source.Endpoint), "region": text(source.Region),
		"version_id": text(source.VersionID), "sha256": text(source.SHA256), "secret_name": text(source.SecretName),
	})
}

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

// wire is what the API is told, but the source.
func (m *functionModel) wire() rest.Function {
	fn := rest.Function{
		Name: m.Name.ValueString(), Runtime: m.Runtime.ValueString(), Entrypoint: m.Entrypoint.ValueString(), CodeHash: m.CodeHash.ValueString(),
		Env: texts(m.Env), TimeoutSec: small(m.TimeoutSec), Concurrency: small(m.Concurrency), Replicas: small(m.Replicas), BuildSec: small(m.BuildTimeoutSec),
		MemoryMB: m.MemoryMB.ValueInt64Pointer(), CPU: m.CPU.ValueFloat64Pointer(), SecretEnv: texts(m.SecretEnv),
	}
	if refs := envRefs(m.EnvFrom); len(refs) > 0 {
		fn.EnvFrom = refs
	}
	return fn
}

// refresh takes over what the API shows, in the form that it had before where there are several.
func (m *functionModel) refresh(fn *rest.Function) {
	m.ID, m.Name, m.Namespace = types.StringValue(fn.Namespace+"/"+fn.Name), types.StringValue(fn.Name), types.StringValue(fn.Namespace)
	m.Runtime, m.Entrypoint = text(fn.Runtime), orText(fn.Entrypoint, "handler.handle")
	m.refreshSource(fn.Source)
	m.Env, m.EnvFrom = textMap(fn.Env, m.Env), envRefsValue(fn.EnvFrom, m.EnvFrom)
	m.refreshSecrets(fn.SecretKeys)
	m.MemoryMB, m.CPU = types.Int64PointerValue(fn.MemoryMB), types.Float64PointerValue(fn.CPU)
	m.TimeoutSec, m.BuildTimeoutSec = orElse(integer(fn.TimeoutSec), 60), orElse(integer(fn.BuildSec), 300)
	m.Concurrency, m.Replicas = integer(fn.Concurrency), orElse(integer(fn.Replicas), 1)
	m.refreshFacts(fn)
}

// refreshFacts takes over what the platform has made of it. The hash is that of the code that is deployed, so that a plan shows a
// change that has not come through.
func (m *functionModel) refreshFacts(fn *rest.Function) {
	status := fn.Status
	if status == nil {
		status = &rest.FunctionStatus{}
	}
	m.CodeHash, m.Phase, m.URL = text(status.CodeHash), text(status.Phase), text(status.URL)
	m.CodeSHA256, m.LastBuiltAt = text(status.CodeSHA256), moment(status.LastBuiltAt)
	if fn.Source == nil || fn.Source.Image == "" {
		m.Image = text(status.Image)
	}
}

// uploadedKeys begins the keys of archives that were uploaded.
const uploadedKeys = "sources/"

func (m *functionModel) refreshSource(source *rest.Source) {
	m.Inline, m.S3 = types.MapNull(types.StringType), types.ObjectNull(s3Types)
	if source == nil {
		return
	}
	switch {
	case source.Image != "":
		m.Image = types.StringValue(source.Image)
	case len(source.Inline) > 0:
		m.Inline = textMap(source.Inline, m.Inline)
	case source.S3 != nil && !(source.S3.SecretName == "" && strings.HasPrefix(source.S3.Key, uploadedKeys)):
		m.S3 = s3Value(source.S3)
	}
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

// excludes are the patterns; ok is false while one is unknown.
func (m *functionModel) excludes(ctx context.Context) (patterns []string, ok bool) {
	if m.Excludes.IsUnknown() {
		return nil, false
	}
	for _, element := range m.Excludes.Elements() {
		pattern, is := element.(basetypes.StringValue)
		if !is || pattern.IsUnknown() {
			return nil, false
		}
		patterns = append(patterns, pattern.ValueString())
	}
	return patterns, true
}
