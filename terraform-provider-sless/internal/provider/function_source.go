package provider

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/naeel/sless/api/rest"
)

// functionSource is where a function's code comes from, image aside, which is a fact too.
type functionSource struct {
	SourceDir types.String `tfsdk:"source_dir"`
	Excludes  types.List   `tfsdk:"excludes"`
	Filename  types.String `tfsdk:"filename"`
	Inline    types.Map    `tfsdk:"inline"`
	S3        types.Object `tfsdk:"s3"`
	HTTP      types.Object `tfsdk:"http"`
	Git       types.Object `tfsdk:"git"`
}

var (
	s3Types = map[string]attr.Type{
		"key": types.StringType, "bucket": types.StringType, "endpoint": types.StringType, "region": types.StringType, "version_id": types.StringType,
		"sha256": types.StringType, "secret_name": types.StringType, "poll_interval_sec": types.Int64Type,
	}
	httpTypes = map[string]attr.Type{"url": types.StringType, "sha256": types.StringType}
	gitTypes  = map[string]attr.Type{"url": types.StringType, "ref": types.StringType, "path": types.StringType, "secret_name": types.StringType}
)

// uploads says whether the provider brings the code itself.
func (s *functionSource) uploads() bool { return !s.SourceDir.IsNull() || !s.Filename.IsNull() }

// field is a text of a block; "" when it is null or unknown.
func field(block types.Object, name string) string {
	value, _ := block.Attributes()[name].(types.String)
	return value.ValueString()
}

// named is a source that the platform reads itself; nil when it is none of those.
func (s *functionSource) named() *rest.Source {
	switch {
	case !s.Inline.IsNull():
		return &rest.Source{Inline: texts(s.Inline)}
	case !s.S3.IsNull():
		poll, _ := s.S3.Attributes()["poll_interval_sec"].(types.Int64)
		return &rest.Source{S3: &rest.S3Source{
			Key: field(s.S3, "key"), Bucket: field(s.S3, "bucket"), Endpoint: field(s.S3, "endpoint"), Region: field(s.S3, "region"),
			VersionID: field(s.S3, "version_id"), SHA256: field(s.S3, "sha256"), SecretName: field(s.S3, "secret_name"), PollSec: small(poll),
		}}
	case !s.HTTP.IsNull():
		return &rest.Source{HTTP: &rest.HTTPSource{URL: field(s.HTTP, "url"), SHA256: field(s.HTTP, "sha256")}}
	case !s.Git.IsNull():
		return &rest.Source{Git: &rest.GitSource{
			URL: field(s.Git, "url"), Ref: field(s.Git, "ref"), Path: field(s.Git, "path"), SecretName: field(s.Git, "secret_name"),
		}}
	}
	return nil
}

// uploadedKeys begins the keys of archives that were uploaded.
const uploadedKeys = "sources/"

func (s *functionSource) refreshSource(source *rest.Source) {
	before := s.Inline
	s.Inline, s.S3, s.HTTP, s.Git = types.MapNull(types.StringType), types.ObjectNull(s3Types), types.ObjectNull(httpTypes), types.ObjectNull(gitTypes)
	if source == nil {
		return
	}
	if len(source.Inline) > 0 {
		s.Inline = textMap(source.Inline, before)
	}
	if s3 := source.S3; s3 != nil && !(s3.SecretName == "" && strings.HasPrefix(s3.Key, uploadedKeys)) {
		s.S3 = types.ObjectValueMust(s3Types, map[string]attr.Value{
			"key": text(s3.Key), "bucket": text(s3.Bucket), "endpoint": text(s3.Endpoint), "region": text(s3.Region), "version_id": text(s3.VersionID),
			"sha256": text(s3.SHA256), "secret_name": text(s3.SecretName), "poll_interval_sec": integer(s3.PollSec),
		})
	}
	if http := source.HTTP; http != nil {
		s.HTTP = types.ObjectValueMust(httpTypes, map[string]attr.Value{"url": text(http.URL), "sha256": text(http.SHA256)})
	}
	if git := source.Git; git != nil {
		s.Git = types.ObjectValueMust(gitTypes, map[string]attr.Value{
			"url": text(git.URL), "ref": text(git.Ref), "path": text(git.Path), "secret_name": text(git.SecretName),
		})
	}
}

// reads says whether another source is read than that of the state. How often it is looked at does not count.
func (s *functionSource) reads(state *functionSource) bool {
	return !s.Inline.Equal(state.Inline) || !unpolled(s.S3).Equal(unpolled(state.S3)) || !s.HTTP.Equal(state.HTTP) || !s.Git.Equal(state.Git)
}

// unpolled is the block without how often it is looked at.
func unpolled(s3 types.Object) types.Object {
	if s3.IsNull() || s3.IsUnknown() {
		return s3
	}
	parts := s3.Attributes()
	parts["poll_interval_sec"] = types.Int64Null()
	return types.ObjectValueMust(s3Types, parts)
}

// sourcePatch is the merge patch that makes a source of any other, with null for what it has not.
func sourcePatch(source *rest.Source, inline map[string]string) map[string]any {
	patch := map[string]any{"inline": nil, "s3": nil, "http": nil, "git": nil, "image": nil}
	switch {
	case source.S3 != nil:
		s3 := source.S3
		patch["s3"] = map[string]any{
			"key": s3.Key, "bucket": orNil(s3.Bucket), "endpoint": orNil(s3.Endpoint), "region": orNil(s3.Region), "version_id": orNil(s3.VersionID),
			"sha256": orNil(s3.SHA256), "secret_name": orNil(s3.SecretName), "poll_interval_sec": s3.PollSec,
		}
	case source.HTTP != nil:
		patch["http"] = map[string]any{"url": source.HTTP.URL, "sha256": source.HTTP.SHA256}
	case source.Git != nil:
		git := source.Git
		patch["git"] = map[string]any{"url": git.URL, "ref": git.Ref, "path": orNil(git.Path), "secret_name": orNil(git.SecretName)}
	case source.Inline != nil:
		patch["inline"] = replaced(source.Inline, inline)
	default:
		patch["image"] = source.Image
	}
	return patch
}

// excludePatterns are those of excludes; ok is false while one is unknown.
func (s *functionSource) excludePatterns() (patterns []string, ok bool) {
	if s.Excludes.IsUnknown() {
		return nil, false
	}
	for _, element := range s.Excludes.Elements() {
		pattern, is := element.(basetypes.StringValue)
		if !is || pattern.IsUnknown() {
			return nil, false
		}
		patterns = append(patterns, pattern.ValueString())
	}
	return patterns, true
}

func (m *functionModel) checkSource(diags *diag.Diagnostics) {
	set, unknown := 0, false
	for _, source := range []attr.Value{m.SourceDir, m.Filename, m.Inline, m.S3, m.HTTP, m.Git, m.Image} {
		if source.IsUnknown() {
			unknown = true
		} else if !source.IsNull() {
			set++
		}
	}
	if set > 1 || (set == 0 && !unknown) {
		diags.AddError("Not one source of code", "Exactly one of source_dir, filename, inline, s3, http, git and image must be set.")
	}
	if m.Runtime.IsNull() && m.Image.IsNull() {
		diags.AddAttributeError(path.Root("runtime"), "The runtime is missing", "runtime is required unless image is set, for example python3.11.")
	}
	if !m.Excludes.IsNull() && m.SourceDir.IsNull() {
		diags.AddAttributeError(path.Root("excludes"), "Nothing to exclude from", "excludes needs source_dir.")
	}
	size := 0
	for _, content := range texts(m.Inline) {
		size += len(content)
	}
	if size > 96<<10 {
		diags.AddAttributeError(path.Root("inline"), "Too much inline code", "The files together must not be larger than 96 KiB; put them in a folder and use source_dir.")
	}
	for _, name := range []string{"bucket", "endpoint"} {
		if secret, ok := m.S3.Attributes()["secret_name"]; ok && field(m.S3, name) != "" && secret.IsNull() {
			diags.AddAttributeError(path.Root("s3").AtName(name), "secret_name is missing", name+" needs secret_name: the platform's own credentials are for its own bucket only.")
		}
	}
}
