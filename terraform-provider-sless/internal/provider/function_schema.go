package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func functionSchema(ctx context.Context) schema.Schema {
	made := schema.Schema{
		MarkdownDescription: "Code that the platform builds and runs. Give it a URL with `sless_trigger`.\n\n" +
			"Exactly one of `source_dir`, `filename`, `inline`, `s3`, `http`, `git` and `image` says where the code comes from.",
		Attributes: map[string]schema.Attribute{},
		Blocks: map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{
			Create: true, Update: true, Delete: true,
			CreateDescription: "How long creating waits, as in `10m`. Default: `build_timeout_sec` and two minutes, so that the reason of a failed build arrives.",
			UpdateDescription: "How long a change waits. Default as for `create`.",
			DeleteDescription: "How long deleting waits. Default `5m`.",
		})},
	}
	for _, part := range []map[string]schema.Attribute{functionCode(), functionEnv(), functionLimits(), functionFacts()} {
		for name, attribute := range part {
			made.Attributes[name] = attribute
		}
	}
	return made
}

func functionCode() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, Validators: []validator.String{functionName()}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			MarkdownDescription: "Name: at most 63 lower-case letters, digits and hyphens, starting with a letter. A change makes the function anew.",
		},
		"runtime": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.LengthAtMost(63), stringvalidator.RegexMatches(runtimes, "must be a runtime's name, for example python3.11")},
			MarkdownDescription: "A runtime of the platform, for example `python3.11` or `nodejs20`. Required unless `image` is set. A change builds.",
		},
		"entrypoint": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("handler.handle"),
			Validators:          []validator.String{stringvalidator.LengthAtMost(253), stringvalidator.RegexMatches(entrypoints, "must be the module's path, a dot and the function's name, for example handler.handle")},
			MarkdownDescription: "Path of the module, a dot, name of the function. Default `handler.handle`: `handle` in `handler.py` or `handler.js`. A change builds.",
		},
		"source_dir": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			MarkdownDescription: "Folder with the code; the provider packs and uploads it. `.git`, `.env`, `__pycache__`, `.venv`, states of Terraform and the like are left out.",
		},
		"excludes": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "What else of `source_dir` to leave out: patterns as in `.gitignore`, for example `[\"tests/\", \"*.md\"]`.",
		},
		"filename": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			MarkdownDescription: "Zip archive with the code; the provider uploads it as it is.",
		},
		"inline": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			Validators:          []validator.Map{mapvalidator.SizeBetween(1, 64), mapvalidator.KeysAre(fileName())},
			MarkdownDescription: "File names and their text, at most 96 KiB together.",
		},
		"s3": schema.SingleNestedAttribute{
			Optional: true, Attributes: s3Attributes(),
			MarkdownDescription: "A zip archive in an S3 bucket. New bytes under the same key are seen when `version_id`, `sha256` or `code_hash` changes, or by `poll_interval_sec`.",
		},
		"http": schema.SingleNestedAttribute{
			Optional: true, Attributes: httpAttributes(),
			MarkdownDescription: "A zip archive at an address, which the platform reads.",
		},
		"git": schema.SingleNestedAttribute{
			Optional: true, Attributes: gitAttributes(),
			MarkdownDescription: "A folder of a Git repository, which the platform reads. New commits of a branch are read when an attribute such as `ref` or `code_hash` changes; `source_revision` is the commit.",
		},
		"image": schema.StringAttribute{
			Optional: true, Computed: true,
			Validators:          []validator.String{stringvalidator.LengthBetween(1, 512), stringvalidator.RegexMatches(images, "must be an image's name, for example registry.example.org/hello@sha256:…")},
			MarkdownDescription: "An image built elsewhere, which keeps the runtime contract. When not set: the image that the platform has built, by digest.",
		},
		"code_hash": schema.StringAttribute{
			Optional: true, Computed: true, Validators: []validator.String{stringvalidator.LengthBetween(1, 256)},
			MarkdownDescription: "Your own mark of the code, of any form: when set, it alone decides whether the code is another, and the files are not looked at when planning. " +
				"When not set: a hash of names, executable bits and bytes of the files (see the function `dir_hash`); none for the other sources.",
		},
		"build_timeout_sec": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(300), Validators: []validator.Int64{int64validator.Between(10, 3600)},
			MarkdownDescription: "How long a build may take, in seconds, 10 to 3600. Default 300.",
		},
		"build_secret_name": schema.StringAttribute{
			Optional: true, Validators: []validator.String{secretName()},
			MarkdownDescription: "A Secret in the namespace with `pip.conf`, `netrc` or `npmrc` for a package index of your own. Only the step that installs dependencies sees it.",
		},
	}
}

func s3Attributes() map[string]schema.Attribute {
	short := []validator.String{stringvalidator.LengthBetween(1, 1024)}
	return map[string]schema.Attribute{
		"key":         schema.StringAttribute{Required: true, Validators: short, MarkdownDescription: "The object's name."},
		"bucket":      schema.StringAttribute{Optional: true, Validators: short, MarkdownDescription: "The bucket; needs `secret_name`."},
		"endpoint":    schema.StringAttribute{Optional: true, Validators: []validator.String{webAddress()}, MarkdownDescription: "URL of the object store; needs `secret_name`. Default: the platform's."},
		"region":      schema.StringAttribute{Optional: true, Validators: short, MarkdownDescription: "The bucket's region. Default `us-east-1`."},
		"version_id":  schema.StringAttribute{Optional: true, Validators: short, MarkdownDescription: "The object's version. Default: the latest when the source is read."},
		"sha256":      schema.StringAttribute{Optional: true, Validators: []validator.String{sha256Text()}, MarkdownDescription: "SHA-256 of the archive in hex, as `filesha256` gives it; other bytes are refused."},
		"secret_name": schema.StringAttribute{Optional: true, Validators: []validator.String{secretName()}, MarkdownDescription: "A Secret in the namespace with `accessKeyID` and `secretAccessKey`."},
		"poll_interval_sec": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(10, 86400)},
			MarkdownDescription: "How often the platform looks for another object under the key, in seconds, 10 to 86400. Default: never. What it finds is deployed without terraform and is no change of the plan.",
		},
	}
}

func httpAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"url":    schema.StringAttribute{Required: true, Validators: []validator.String{codeAddress()}, MarkdownDescription: "The address, `https` or `http`, without user or password."},
		"sha256": schema.StringAttribute{Required: true, Validators: []validator.String{sha256Text()}, MarkdownDescription: "SHA-256 of the archive in hex; other bytes are refused."},
	}
}

func gitAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"url":         schema.StringAttribute{Required: true, Validators: []validator.String{repositoryAddress()}, MarkdownDescription: "The repository's address, `https` or `http`, without user or password."},
		"ref":         schema.StringAttribute{Required: true, Validators: []validator.String{gitRef()}, MarkdownDescription: "A branch, a tag, a full reference such as `refs/heads/main`, or a commit as 40 hex digits."},
		"path":        schema.StringAttribute{Optional: true, Validators: []validator.String{gitFolder()}, MarkdownDescription: "The folder with the code, relative to the root. Default: the root."},
		"secret_name": schema.StringAttribute{Optional: true, Validators: []validator.String{secretName()}, MarkdownDescription: "A Secret in the namespace with `username` and `password`."},
	}
}

func functionEnv() map[string]schema.Attribute {
	names := []validator.Map{mapvalidator.SizeAtMost(128), mapvalidator.KeysAre(variableName()), mapvalidator.ValueStringsAre(stringvalidator.LengthAtMost(32768))}
	return map[string]schema.Attribute{
		"env": schema.MapAttribute{
			Optional: true, ElementType: types.StringType, Validators: names,
			MarkdownDescription: "Variables of the function's environment. A change restarts the pods and builds nothing.",
		},
		"env_from": schema.MapNestedAttribute{
			Optional: true, Validators: names[:2],
			MarkdownDescription: "Variables whose values are keys of Secrets or ConfigMaps in the namespace, whose changes the platform follows.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"secret_name":     schema.StringAttribute{Optional: true, MarkdownDescription: "The Secret. Exactly one of this and `config_map_name` is set."},
				"config_map_name": schema.StringAttribute{Optional: true, MarkdownDescription: "The ConfigMap."},
				"key":             schema.StringAttribute{Required: true, MarkdownDescription: "The key in it."},
				"optional":        schema.BoolAttribute{Optional: true, MarkdownDescription: "Leave the variable out when there is no such key. Default `false`: the function fails until there is."},
			}},
		},
		"secret_env": schema.MapAttribute{
			Optional: true, Sensitive: true, ElementType: types.StringType, Validators: names,
			MarkdownDescription: "Variables whose values the platform keeps in a Secret and never shows. They are in the state; `secret_env_wo` is not.",
		},
		"secret_env_wo": schema.MapAttribute{
			Optional: true, Sensitive: true, WriteOnly: true, ElementType: types.StringType, Validators: names,
			MarkdownDescription: "As `secret_env`, but neither in the plan nor in the state. A change is written when `secret_env_wo_version` changes. Needs Terraform 1.11.",
		},
		"secret_env_wo_version": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Any number; another one writes `secret_env_wo` again.",
		},
	}
}

func functionLimits() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"memory_mb": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, 16777216)},
			MarkdownDescription: "Memory of one replica in MiB. Default: the platform's.",
		},
		"cpu": schema.Float64Attribute{
			Optional: true, Validators: []validator.Float64{float64validator.Between(0.001, 4096), thousandths{}},
			MarkdownDescription: "Cores of one replica, for example `0.5`. Default: the platform's.",
		},
		"timeout_sec": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(60), Validators: []validator.Int64{int64validator.Between(1, 3600)},
			MarkdownDescription: "How long a call may take, in seconds, 1 to 3600. Default 60.",
		},
		"concurrency": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, 1000)},
			MarkdownDescription: "How many calls one replica runs at a time. Default: no limit.",
		},
		"replicas": schema.Int64Attribute{
			Optional: true, Computed: true, Validators: []validator.Int64{int64validator.Between(0, 1000)},
			MarkdownDescription: "How many pods run; 0 is off. When not set, what others such as an autoscaler set is left alone; a new function has 1.",
		},
	}
}

func functionFacts() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"phase":           phaseAttribute("`Pending`, `Building`, `Deploying`, `Ready` or `Failed`"),
		"url":             schema.StringAttribute{Computed: true, MarkdownDescription: "Public address, while an enabled http trigger serves it. In outputs and other resources use the trigger's `url`: this one is known only at the next refresh after the trigger is made."},
		"code_sha256":     schema.StringAttribute{Computed: true, MarkdownDescription: "The platform's digest of the files that are deployed."},
		"source_revision": schema.StringAttribute{Computed: true, MarkdownDescription: "What the code was read at: the commit of `git`, the ETag of `s3`. It is never a reason for a change."},
		"last_built_at":   schema.StringAttribute{Computed: true, MarkdownDescription: "When the image was made."},
	}
}
