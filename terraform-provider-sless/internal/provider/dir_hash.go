package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/naeel/sless/terraform-provider-sless/internal/code"
)

type dirHash struct{}

func newDirHash() function.Function { return dirHash{} }

// Metadata implements function.Function.
func (dirHash) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "dir_hash"
}

// Definition implements function.Function.
func (dirHash) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Hash of a folder's code",
		MarkdownDescription: "The hash that `sless_function` has as `code_hash` for a `source_dir` with the same `excludes`: of names, executable bits and bytes of the files, " +
			"whatever their times, owners and order.",
		Parameters:        []function.Parameter{function.StringParameter{Name: "dir", MarkdownDescription: "The folder."}},
		VariadicParameter: function.StringParameter{Name: "excludes", MarkdownDescription: "What to leave out: patterns as in `excludes`."},
		Return:            function.StringReturn{},
	}
}

// Run implements function.Function.
func (dirHash) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var folder string
	var patterns []string
	if resp.Error = req.Arguments.Get(ctx, &folder, &patterns); resp.Error != nil {
		return
	}
	excludes, err := code.NewExcludes(patterns)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(1, err.Error())
		return
	}
	tree, err := code.FromFolder(folder, excludes)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, folder+": "+err.Error())
		return
	}
	hash, err := tree.Hash()
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, hash)
}
