package provider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// namedIn reads name and namespace of a configuration.
func namedIn(ctx context.Context, config *tfsdk.Config) (identity, diag.Diagnostics) {
	var of identity
	diags := config.GetAttribute(ctx, path.Root("namespace"), &of.Namespace)
	diags.Append(config.GetAttribute(ctx, path.Root("name"), &of.Name)...)
	return of, diags
}

// in is the namespace, or the provider's when it is null.
func (p *platform) in(namespace types.String) string {
	if namespace.IsNull() {
		return p.namespace.ValueString()
	}
	return namespace.ValueString()
}

// listDataSource reads all objects of a namespace.
type listDataSource[T, V any] struct {
	kind[T]
	platform   *platform
	attributes func() map[string]schema.Attribute
	view       func(*T) V
}

// Metadata implements datasource.DataSource.
func (d *listDataSource[T, V]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.name + "s"
}

// Schema implements datasource.DataSource.
func (d *listDataSource[T, V]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	items := map[string]schema.Attribute{
		"id": computedText("`namespace/name`."), "name": computedText("Name."), "namespace": computedText("Namespace."),
	}
	maps.Copy(items, d.attributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "All " + d.name + "s of a namespace, in the order of their names.",
		Attributes: map[string]schema.Attribute{
			"namespace":      schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Namespace. Default: the provider's."},
			"label_selector": schema.StringAttribute{Optional: true, MarkdownDescription: "Only those with these labels, in the syntax of kubectl, for example `team=a,stage!=test`."},
			d.name + "s": schema.ListNestedAttribute{
				Computed: true, NestedObject: schema.NestedAttributeObject{Attributes: items},
				MarkdownDescription: "The " + d.name + "s.",
			},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *listDataSource[T, V]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.platform = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (d *listDataSource[T, V]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var namespace, selector types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("label_selector"), &selector)...)
	if resp.Diagnostics.HasError() || !d.platform.demand(&resp.Diagnostics) {
		return
	}
	in := d.platform.in(namespace)
	objects, err := d.list(d.platform.client, in).All(ctx, selector.ValueString())
	if err != nil {
		addError(&resp.Diagnostics, "The "+d.name+"s of "+in+" can't be listed", err, nil)
		return
	}
	views := make([]V, len(objects))
	for i := range objects {
		views[i] = d.view(&objects[i])
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), in)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("label_selector"), selector)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.name+"s"), views)...)
}
