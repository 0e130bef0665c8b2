package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// functionView is a function as data.
type functionView struct {
	ID              types.String  `tfsdk:"id"`
	Name            types.String  `tfsdk:"name"`
	Namespace       types.String  `tfsdk:"namespace"`
	Runtime         types.String  `tfsdk:"runtime"`
	Entrypoint      types.String  `tfsdk:"entrypoint"`
	CodeHash        types.String  `tfsdk:"code_hash"`
	Env             types.Map     `tfsdk:"env"`
	SecretEnvKeys   types.List    `tfsdk:"secret_env_keys"`
	MemoryMB        types.Int64   `tfsdk:"memory_mb"`
	CPU             types.Float64 `tfsdk:"cpu"`
	TimeoutSec      types.Int64   `tfsdk:"timeout_sec"`
	Concurrency     types.Int64   `tfsdk:"concurrency"`
	Replicas        types.Int64   `tfsdk:"replicas"`
	ReadyReplicas   types.Int64   `tfsdk:"ready_replicas"`
	BuildTimeoutSec types.Int64   `tfsdk:"build_timeout_sec"`
	Phase           types.String  `tfsdk:"phase"`
	Message         types.String  `tfsdk:"message"`
	URL             types.String  `tfsdk:"url"`
	Image           types.String  `tfsdk:"image"`
	CodeSHA256      types.String  `tfsdk:"code_sha256"`
	LastBuiltAt     types.String  `tfsdk:"last_built_at"`
}

func functionViewAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"runtime":           computedText("The runtime."),
		"entrypoint":        computedText("Path of the module, a dot, name of the function."),
		"code_hash":         computedText("The mark of the code that is deployed."),
		"env":               schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Variables of the environment."},
		"secret_env_keys":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Names of the secret variables."},
		"memory_mb":         computedNumber("Memory of one replica in MiB."),
		"cpu":               schema.Float64Attribute{Computed: true, MarkdownDescription: "Cores of one replica."},
		"timeout_sec":       computedNumber("How long a call may take, in seconds."),
		"concurrency":       computedNumber("How many calls one replica runs at a time."),
		"replicas":          computedNumber("How many pods are asked for."),
		"ready_replicas":    computedNumber("How many pods of the current version answer."),
		"build_timeout_sec": computedNumber("How long a build may take, in seconds."),
		"phase":             computedText("`Pending`, `Building`, `Deploying`, `Ready` or `Failed`."),
		"message":           computedText("Why, for people."),
		"url":               computedText("Public address, while an enabled http trigger serves it."),
		"image":             computedText("The image that runs, by digest."),
		"code_sha256":       computedText("The platform's digest of the files that are deployed."),
		"last_built_at":     computedText("When the image was made."),
	}
}

func viewFunction(fn *rest.Function) functionView {
	var model functionModel
	model.refresh(fn)
	view := functionView{
		ID: model.ID, Name: model.Name, Namespace: model.Namespace, Runtime: model.Runtime, Entrypoint: model.Entrypoint, CodeHash: model.CodeHash, Env: model.Env,
		SecretEnvKeys: textList(fn.SecretKeys), MemoryMB: model.MemoryMB, CPU: model.CPU, TimeoutSec: model.TimeoutSec, Concurrency: model.Concurrency,
		Replicas: model.Replicas, ReadyReplicas: types.Int64Value(0), BuildTimeoutSec: model.BuildTimeoutSec, Phase: model.Phase, URL: model.URL, Image: model.Image,
		CodeSHA256: model.CodeSHA256, LastBuiltAt: model.LastBuiltAt, Message: types.StringNull(),
	}
	if status := fn.Status; status != nil {
		view.ReadyReplicas, view.Message = types.Int64Value(int64(status.ReadyReplicas)), text(status.Message)
		if status.Image != "" {
			view.Image = types.StringValue(status.Image)
		}
	}
	return view
}

func newFunctionDataSource() datasource.DataSource {
	return &objectDataSource[rest.Function, functionView]{
		kind: "function", description: "A function.", attributes: functionViewAttributes, list: (*rest.Client).Functions, view: viewFunction,
	}
}

func newFunctionsDataSource() datasource.DataSource {
	return &listDataSource[rest.Function, functionView]{
		kind: "function", attributes: functionViewAttributes, list: (*rest.Client).Functions, view: viewFunction,
	}
}

func computedText(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func textList(values []string) types.List {
	elements := make([]attr.Value, len(values))
	for i, value := range values {
		elements[i] = types.StringValue(value)
	}
	return types.ListValueMust(types.StringType, elements)
}
