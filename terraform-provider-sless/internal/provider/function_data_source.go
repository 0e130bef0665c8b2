package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
)

// functionView is a function as data.
type functionView struct {
	functionAttributes
	SecretEnvKeys types.List   `tfsdk:"secret_env_keys"`
	ReadyReplicas types.Int64  `tfsdk:"ready_replicas"`
	Message       types.String `tfsdk:"message"`
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
		"build_secret_name": computedText("The Secret with credentials for a package index."),
		"phase":             computedText("`Pending`, `Building`, `Deploying`, `Ready` or `Failed`."),
		"message":           computedText("Why, for people."),
		"url":               computedText("Public address, while an enabled http trigger serves it."),
		"image":             computedText("The image that runs, by digest."),
		"code_sha256":       computedText("The platform's digest of the files that are deployed."),
		"source_revision":   computedText("What the code was read at: the commit of `git`, the ETag of `s3`."),
		"last_built_at":     computedText("When the image was made."),
	}
}

func viewFunction(fn *rest.Function) functionView {
	view := functionView{SecretEnvKeys: textList(fn.SecretKeys), ReadyReplicas: types.Int64Value(0)}
	view.refresh(fn)
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
		kind: functions, description: "A function.", attributes: functionViewAttributes, view: viewFunction,
	}
}

func newFunctionsDataSource() datasource.DataSource {
	return &listDataSource[rest.Function, functionView]{
		kind: functions, attributes: functionViewAttributes, view: viewFunction,
	}
}

func computedText(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedEvent(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, CustomType: jsontypes.NormalizedType{}, MarkdownDescription: description}
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
