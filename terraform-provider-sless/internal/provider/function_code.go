package provider

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/naeel/sless/api/rest"
	"github.com/naeel/sless/terraform-provider-sless/internal/code"
)

// plannedHash is the code_hash of a configuration: the user's, else one of the files, else none. It is unknown while they are, and when
// the code of a function that exists is gone: Terraform plans before it destroys, which needs no code.
func (m *functionModel) plannedHash(exists bool) (types.String, diag.Diagnostics) {
	var diags diag.Diagnostics
	for at, source := range map[string]types.String{"source_dir": m.SourceDir, "filename": m.Filename} {
		if _, err := os.Stat(source.ValueString()); exists && m.CodeHash.IsNull() && source.ValueString() != "" && os.IsNotExist(err) {
			diags.AddAttributeWarning(path.Root(at), "The code is not there", fmt.Sprintf("%s %s does not exist. The function can be destroyed, but not changed.", at, source.ValueString()))
			return types.StringUnknown(), diags
		}
	}
	patterns, known := m.excludePatterns()
	switch {
	case !m.CodeHash.IsNull():
		return m.CodeHash, nil
	case m.SourceDir.IsUnknown() || m.Filename.IsUnknown() || !known:
		return types.StringUnknown(), nil
	case !m.SourceDir.IsNull():
		tree := openFolder(m.SourceDir.ValueString(), patterns, &diags)
		if diags.HasError() {
			return types.StringUnknown(), diags
		}
		return hashOf(tree, path.Root("source_dir"), &diags), diags
	case !m.Filename.IsNull():
		archive, tree := openArchive(m.Filename.ValueString(), &diags)
		if diags.HasError() {
			return types.StringUnknown(), diags
		}
		defer archive.Close()
		return hashOf(tree, path.Root("filename"), &diags), diags
	}
	return types.StringNull(), nil
}

func hashOf(tree *code.Tree, at path.Path, diags *diag.Diagnostics) types.String {
	hash, err := tree.Hash()
	if err != nil {
		diags.AddAttributeError(at, "The code can't be read", err.Error())
		return types.StringUnknown()
	}
	return types.StringValue(hash)
}

func openFolder(folder string, patterns []string, diags *diag.Diagnostics) *code.Tree {
	excludes, err := code.NewExcludes(patterns)
	if err != nil {
		diags.AddAttributeError(path.Root("excludes"), "Not a pattern", err.Error())
		return nil
	}
	tree, err := code.FromFolder(folder, excludes)
	if err != nil {
		diags.AddAttributeError(path.Root("source_dir"), "The folder can't be a function's code", fmt.Sprintf("source_dir %s: %s.", folder, err))
	}
	return tree
}

// openArchive opens an archive that the caller closes.
func openArchive(name string, diags *diag.Diagnostics) (*os.File, *code.Tree) {
	refuse := func(err any) (*os.File, *code.Tree) {
		diags.AddAttributeError(path.Root("filename"), "The archive can't be a function's code",
			fmt.Sprintf("filename %s: %v. If the archive is made by the same apply, set code_hash, so that it is not read when planning.", name, err))
		return nil, nil
	}
	archive, err := os.Open(name)
	if err != nil {
		if os.IsNotExist(err) {
			return refuse("it does not exist")
		}
		return refuse(err)
	}
	info, err := archive.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no file")
	}
	var tree *code.Tree
	if err == nil {
		tree, err = code.FromArchive(archive, info.Size())
	}
	if err != nil {
		archive.Close()
		return refuse(err)
	}
	return archive, tree
}

// bring finds the source that the API is to be told of, and the mark of its code, and puts both into the plan. Code that the provider
// brings is uploaded for that; it must be what was planned.
func (m *functionModel) bring(ctx context.Context, client *rest.Client, plan *functionModel, diags *diag.Diagnostics) {
	if !m.uploads() {
		if plan.told = m.named(); plan.told == nil {
			plan.told = &rest.Source{Image: m.Image.ValueString()}
		}
		plan.CodeHash = m.CodeHash
		return
	}
	archive, hash := m.archive(diags)
	if diags.HasError() {
		return
	}
	defer archive.Close()
	if m.CodeHash.IsNull() && !plan.CodeHash.IsUnknown() && plan.CodeHash.ValueString() != hash {
		diags.AddError("The code has changed since the plan", "The files are not those that were planned with. Nothing was uploaded; run terraform apply again.")
		return
	}
	uploaded, err := client.Upload(ctx, plan.Namespace.ValueString(), archive)
	if err != nil {
		addError(diags, "Upload of the code failed", err, nil)
		return
	}
	if plan.CodeHash = m.CodeHash; plan.CodeHash.IsNull() {
		plan.CodeHash = types.StringValue(hash)
	}
	plan.told = &rest.Source{S3: &rest.S3Source{Key: uploaded.Key, SHA256: uploaded.SHA256}}
}

// archive is what to upload, and the hash of exactly that.
func (m *functionModel) archive(diags *diag.Diagnostics) (archive io.ReadSeekCloser, hash string) {
	if !m.Filename.IsNull() {
		opened, tree := openArchive(m.Filename.ValueString(), diags)
		if diags.HasError() {
			return nil, ""
		}
		return opened, hashOf(tree, path.Root("filename"), diags).ValueString()
	}
	patterns, _ := m.excludePatterns()
	tree := openFolder(m.SourceDir.ValueString(), patterns, diags)
	if diags.HasError() {
		return nil, ""
	}
	packed, err := os.CreateTemp("", "sless-*.zip")
	if err != nil {
		diags.AddError("The code can't be packed", err.Error())
		return nil, ""
	}
	if hash, err = tree.Pack(packed); err != nil {
		diags.AddAttributeError(path.Root("source_dir"), "The code can't be packed", err.Error())
		_ = temporary{packed}.Close()
		return nil, ""
	}
	return temporary{packed}, hash
}

// temporary is a file that goes when it is closed.
type temporary struct{ *os.File }

// Close implements io.Closer.
func (t temporary) Close() error {
	err := t.File.Close()
	if removed := os.Remove(t.Name()); err == nil {
		err = removed
	}
	return err
}
