// Package provider is the Terraform provider of sless: one file for each resource, data source, function and action.
package provider

import (
	"context"
	"os"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// Address is the provider's name in a configuration.
const Address = "terra.k8c.ru/naeel/sless"

// defaultNamespace is that of objects which name none when the provider does not either.
const defaultNamespace = "default"

// New returns a function that makes the provider, as the server wants it.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &slessProvider{version: version} }
}

type slessProvider struct{ version string }

// platform is what resources get of the provider's configuration.
type platform struct {
	// client is nil while the configuration is not known, which it is when objects are made.
	client *rest.Client
	// namespace is unknown likewise.
	namespace types.String
}

type providerModel struct {
	Endpoint   types.String `tfsdk:"endpoint"`
	Token      types.String `tfsdk:"token"`
	TokenFile  types.String `tfsdk:"token_file"`
	Namespace  types.String `tfsdk:"namespace"`
	CACertFile types.String `tfsdk:"ca_cert_file"`
	Insecure   types.Bool   `tfsdk:"insecure"`
}

// Metadata implements provider.Provider.
func (p *slessProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "sless", p.version
}

// Schema implements provider.Provider.
func (p *slessProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Functions on Kubernetes: code in, URL out.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true, Validators: []validator.String{webAddress()},
				MarkdownDescription: "URL of the platform's API, for example `https://api.functions.example.org`. Or the environment variable `SLESS_ENDPOINT`.",
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Bearer token. Or `SLESS_TOKEN`.",
			},
			"token_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "File with the token, used when `token` is not set and read again when the token has run out. Or `SLESS_TOKEN_FILE`.",
			},
			"namespace": schema.StringAttribute{
				Optional: true, Validators: []validator.String{namespaceName()},
				MarkdownDescription: "Namespace of objects that name none. Or `SLESS_NAMESPACE`. Default `default`.",
			},
			"ca_cert_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "PEM file with certificates to trust besides the system's. Or `SLESS_CA_CERT_FILE`.",
			},
			"insecure": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Take any certificate of the server: for trials only. Or `SLESS_INSECURE`. Default `false`.",
			},
		},
	}
}

// Configure implements provider.Provider. It makes no call.
func (p *slessProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var model providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	made := p.platform(model, req.TerraformVersion, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.ResourceData, resp.DataSourceData, resp.ActionData = made, made, made
}

func (p *slessProvider) platform(model providerModel, terraform string, diags *diag.Diagnostics) *platform {
	made := &platform{namespace: fromEnvironment(model.Namespace, "SLESS_NAMESPACE")}
	if made.namespace.IsNull() {
		made.namespace = types.StringValue(defaultNamespace)
	}
	endpoint := fromEnvironment(model.Endpoint, "SLESS_ENDPOINT")
	token := model.Token
	tokenFile := model.TokenFile
	if token.IsNull() && tokenFile.IsNull() {
		token, tokenFile = fromEnvironment(token, "SLESS_TOKEN"), fromEnvironment(tokenFile, "SLESS_TOKEN_FILE")
	}
	ca := fromEnvironment(model.CACertFile, "SLESS_CA_CERT_FILE")
	if endpoint.IsUnknown() || token.IsUnknown() || tokenFile.IsUnknown() || ca.IsUnknown() || model.Insecure.IsUnknown() {
		return made
	}
	config := rest.Config{
		Endpoint: endpoint.ValueString(), Token: token.ValueString(), TokenFile: tokenFile.ValueString(), Insecure: insecure(model.Insecure, diags),
		UserAgent: "terraform-provider-sless/" + p.version + " terraform/" + terraform,
	}
	if config.Endpoint == "" {
		diags.AddAttributeError(path.Root("endpoint"), "The API's address is missing", "Set endpoint in the provider block, or the environment variable SLESS_ENDPOINT.")
	}
	if config.Token == "" && config.TokenFile == "" {
		diags.AddAttributeError(path.Root("token"), "The token is missing", "Set token or token_file in the provider block, or the environment variable SLESS_TOKEN or SLESS_TOKEN_FILE.")
	}
	if name := ca.ValueString(); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			diags.AddAttributeError(path.Root("ca_cert_file"), "The certificates can't be read", err.Error())
		}
		config.CACert = pem
	}
	if diags.HasError() {
		return made
	}
	client, err := rest.NewClient(config)
	if err != nil {
		diags.AddError("The provider's configuration is not good", err.Error())
	}
	made.client = client
	return made
}

// fromEnvironment returns the value, or that of a variable when it is null.
func fromEnvironment(value types.String, variable string) types.String {
	if text := os.Getenv(variable); value.IsNull() && text != "" {
		return types.StringValue(text)
	}
	return value
}

func insecure(value types.Bool, diags *diag.Diagnostics) bool {
	text := os.Getenv("SLESS_INSECURE")
	if !value.IsNull() || text == "" {
		return value.ValueBool()
	}
	parsed, err := strconv.ParseBool(text)
	if err != nil {
		diags.AddAttributeError(path.Root("insecure"), "SLESS_INSECURE is neither true nor false", "Set the environment variable to true or false.")
	}
	return parsed
}

// configured takes what Configure handed over; nil before that.
func configured(data any) *platform {
	made, _ := data.(*platform)
	return made
}

// ready says whether calls can be made.
func (p *platform) ready() bool { return p != nil && p.client != nil }

// demand is ready, with an error.
func (p *platform) demand(diags *diag.Diagnostics) bool {
	if !p.ready() {
		diags.AddError("The provider's configuration is not known yet", "A value in the provider block comes from a resource that is not there yet; apply that resource first.")
	}
	return p.ready()
}

// Resources implements provider.Provider.
func (p *slessProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newFunctionResource, newTriggerResource, newJobResource}
}

// DataSources implements provider.Provider.
func (p *slessProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newFunctionDataSource, newTriggerDataSource, newJobDataSource, newFunctionsDataSource, newTriggersDataSource, newJobsDataSource,
		newInvocationsDataSource,
	}
}

// Functions implements provider.ProviderWithFunctions.
func (p *slessProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newDirHash}
}

// Actions implements provider.ProviderWithActions. Versions of Terraform that don't know actions don't ask.
func (p *slessProvider) Actions(context.Context) []func() action.Action {
	return []func() action.Action{newInvokeAction, newRunJobAction}
}
