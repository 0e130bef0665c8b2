package provider

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// identity is what tells an object from all others of its kind.
type identity struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
}

// object is what the attributes of all kinds have.
type object struct {
	identity
	ID    types.String `tfsdk:"id"`
	Phase types.String `tfsdk:"phase"`
}

func (o *object) common() *object { return o }

// refreshName takes over what the API says an object is called.
func (o *object) refreshName(namespace, name string) {
	o.Namespace, o.Name = types.StringValue(namespace), types.StringValue(name)
	o.ID = joinID(o.Namespace, o.Name)
}

// managed is what the attributes of all resources have.
type managed struct {
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (m *managed) limits() timeouts.Value { return m.Timeouts }

func identitySchema() identityschema.Schema {
	return identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"namespace": identityschema.StringAttribute{RequiredForImport: true, Description: "The namespace."},
		"name":      identityschema.StringAttribute{RequiredForImport: true, Description: "The name."},
	}}
}

// setIdentity does nothing for versions of Terraform that know no identities.
func setIdentity(ctx context.Context, to *tfsdk.ResourceIdentity, of identity) diag.Diagnostics {
	if to == nil {
		return nil
	}
	return to.Set(ctx, of)
}

// importState takes namespace/name, or an identity.
func importState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var of identity
	if req.ID == "" && req.Identity != nil && !req.Identity.Raw.IsNull() {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &of)...)
		if resp.Diagnostics.HasError() {
			return
		}
	} else {
		namespace, name, found := strings.Cut(req.ID, "/")
		if !found || !objectLabel.MatchString(namespace) || !objectLabel.MatchString(name) {
			resp.Diagnostics.AddError("Not an id to import", "The id must be namespace/name, for example default/hello.")
			return
		}
		of = identity{Namespace: types.StringValue(namespace), Name: types.StringValue(name)}
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), of.Namespace)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), of.Name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), joinID(of.Namespace, of.Name))...)
	resp.Diagnostics.Append(setIdentity(ctx, resp.Identity, of)...)
}

// joinID is unknown while a part of it is.
func joinID(namespace, name types.String) types.String {
	if namespace.IsUnknown() || name.IsUnknown() {
		return types.StringUnknown()
	}
	return types.StringValue(namespace.ValueString() + "/" + name.ValueString())
}

// planNamespace is the namespace that an object is to be in, and whether that makes it another object than the one in the state.
func planNamespace(platform *platform, config, state types.String) (planned types.String, replace bool) {
	planned = config
	if config.IsNull() {
		planned = types.StringUnknown()
		if platform != nil {
			planned = platform.namespace
		}
		if planned.IsUnknown() && !state.IsNull() {
			planned = state
		}
	}
	return planned, !state.IsNull() && !planned.Equal(state)
}

// namespaceAttribute, idAttribute and the like are in several schemas.
func namespaceAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Validators: []validator.String{namespaceName()},
		MarkdownDescription: "Namespace. Default: the provider's. A change makes it anew.",
	}
}

func idAttribute() schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: "`namespace/name`."}
}

func phaseAttribute(phases string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: "One word for how it is: " + phases + "."}
}

// text is null for an empty string.
func text(value string) types.String {
	if value == "" {
		return types.StringNull()
	}
	return types.StringValue(value)
}

func moment(at *time.Time) types.String {
	if at == nil {
		return types.StringNull()
	}
	return types.StringValue(at.UTC().Format(time.RFC3339))
}

func integer[T int32 | int64](value *T) types.Int64 {
	if value == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*value))
}

// orElse is the value, or the other when it is null.
func orElse(value types.Int64, other int64) types.Int64 {
	if value.IsNull() {
		return types.Int64Value(other)
	}
	return value
}

func orText(value, other string) types.String {
	if value == "" {
		return types.StringValue(other)
	}
	return types.StringValue(value)
}

// small is a number that the schema's rules keep within 32 bits; null is nil.
func small(value types.Int64) *int32 {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	return new(int32(min(max(value.ValueInt64(), math.MinInt32), math.MaxInt32)))
}

// texts are the elements of a map of strings.
func texts(value types.Map) map[string]string {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	all := map[string]string{}
	for key, element := range value.Elements() {
		if element, ok := element.(types.String); ok && !element.IsNull() {
			all[key] = element.ValueString()
		}
	}
	return all
}

// textMap is null for no elements, unless the one before was empty rather than null.
func textMap(values map[string]string, before types.Map) types.Map {
	if len(values) == 0 && (before.IsNull() || before.IsUnknown()) {
		return types.MapNull(types.StringType)
	}
	all, diags := types.MapValueFrom(context.Background(), types.StringType, values)
	if diags.HasError() {
		return types.MapNull(types.StringType)
	}
	if len(values) == 0 {
		return before
	}
	return all
}

// known is what was planned, or what was seen where the plan left it open.
func known[V attr.Value](seen, planned V) V {
	if planned.IsUnknown() {
		return seen
	}
	return planned
}

// changes is the merge patch of what differs between a plan and a state.
type changes map[string]any

func (c changes) set(name string, planned, before attr.Value, value any) {
	if !planned.Equal(before) {
		c[name] = value
	}
}
