package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
)

// objectDataSource reads one object. Its model V must have the attributes named in attributes, and id, name and namespace.
type objectDataSource[T, V any] struct {
	kind[T]
	platform    *platform
	description string
	attributes  func() map[string]schema.Attribute
	view        func(*T) V
}

// Metadata implements datasource.DataSource.
func (d *objectDataSource[T, V]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.name
}

// Schema implements datasource.DataSource.
func (d *objectDataSource[T, V]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: d.description, Attributes: d.attributes()}
	resp.Schema.Attributes["id"] = computedText("`namespace/name`.")
	resp.Schema.Attributes["name"] = schema.StringAttribute{Required: true, MarkdownDescription: "Name."}
	resp.Schema.Attributes["namespace"] = schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Namespace. Default: the provider's."}
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *objectDataSource[T, V]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.platform = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (d *objectDataSource[T, V]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	of, diags := namedIn(ctx, &req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !d.platform.demand(&resp.Diagnostics) {
		return
	}
	namespace, name := d.platform.in(of.Namespace), of.Name.ValueString()
	stored, err := d.list(d.platform.client, namespace).Get(ctx, name)
	if err != nil {
		addError(&resp.Diagnostics, "The "+d.name+" "+namespace+"/"+name+" can't be read", err, nil)
		return
	}
	view := d.view(&stored.Object)
	resp.Diagnostics.Append(resp.State.Set(ctx, &view)...)
}
