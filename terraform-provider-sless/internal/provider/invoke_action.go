package provider

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// invokeAction calls a function. Versions of Terraform before 1.14 don't know actions.
type invokeAction struct{ platform *platform }

func newInvokeAction() action.Action { return &invokeAction{} }

type invokeModel struct {
	Function  types.String         `tfsdk:"function"`
	Namespace types.String         `tfsdk:"namespace"`
	EventJSON jsontypes.Normalized `tfsdk:"event_json"`
}

// Metadata implements action.Action.
func (a *invokeAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_invoke"
}

// Schema implements action.Action.
func (a *invokeAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Calls a function once with an event and shows what it returned. Needs Terraform 1.14.",
		Attributes:          calledAttributes(),
	}
}

// calledAttributes say what an action calls.
func calledAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"function":  schema.StringAttribute{Required: true, Validators: []validator.String{functionName()}, MarkdownDescription: "Name of the function."},
		"namespace": schema.StringAttribute{Optional: true, Validators: []validator.String{namespaceName()}, MarkdownDescription: "Namespace. Default: the provider's."},
		"event_json": schema.StringAttribute{
			Optional: true, CustomType: jsontypes.NormalizedType{}, Validators: []validator.String{event()}, MarkdownDescription: "The event as JSON. Default `{}`.",
		},
	}
}

// Configure implements action.ActionWithConfigure.
func (a *invokeAction) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.platform = configured(req.ProviderData)
}

// Invoke implements action.Action.
func (a *invokeAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var model invokeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !a.platform.demand(&resp.Diagnostics) {
		return
	}
	json := "{}"
	if !model.EventJSON.IsNull() {
		json = model.EventJSON.ValueString()
	}
	namespace, name := a.platform.in(model.Namespace), model.Function.ValueString()
	result, err := a.platform.client.Invoke(ctx, namespace, name, []byte(json))
	if err != nil {
		addError(&resp.Diagnostics, "Function "+namespace+"/"+name+" can't be called", err, nil)
		return
	}
	resp.SendProgress(action.InvokeProgressEvent{Message: namespace + "/" + name + " returned " + shown(result)})
}

// shown is an answer short enough for a terminal.
func shown(result []byte) string {
	const most = 2000
	text := strings.TrimSpace(string(result))
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
