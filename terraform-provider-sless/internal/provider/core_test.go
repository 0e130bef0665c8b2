package provider

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// core does what Terraform does with a provider, over the real protocol and without a process.
type core struct {
	t      testing.TB
	server tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
}

// values are attributes by name: string, bool, int, float64, map[string]string, unknown, or a tftypes.Value. Others are null.
type values map[string]any

type unknownValue struct{}

var unknown unknownValue

// newCore configures a provider for an API; other settings come from more.
func newCore(t testing.TB, endpoint any, more values) *core {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	c := &core{t: t, server: server}
	if c.schema, err = server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		t.Fatal(err)
	}
	settings := values{"endpoint": endpoint, "token": "the-token", "namespace": "ns"}
	for name, value := range more {
		settings[name] = value
	}
	config := c.object(c.schema.Provider.ValueType(), settings)
	answer, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.14.0", Config: c.wire(config)})
	if err != nil {
		t.Fatal(err)
	}
	c.fine("configure", answer.Diagnostics)
	return c
}

func (c *core) fine(what string, diagnostics []*tfprotov6.Diagnostic) {
	c.t.Helper()
	if text := errorsOf(diagnostics); text != "" {
		c.t.Fatalf("%s: %s", what, text)
	}
}

func errorsOf(diagnostics []*tfprotov6.Diagnostic) string {
	var all []string
	for _, diagnostic := range diagnostics {
		if diagnostic.Severity == tfprotov6.DiagnosticSeverityError {
			all = append(all, fmt.Sprintf("%v: %s: %s", diagnostic.Attribute, diagnostic.Summary, diagnostic.Detail))
		}
	}
	return strings.Join(all, "\n")
}

func (c *core) object(of tftypes.Type, set values) tftypes.Value {
	c.t.Helper()
	object := of.(tftypes.Object)
	all := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		all[name] = value(kind, set[name])
	}
	for name := range set {
		if _, known := all[name]; !known {
			c.t.Fatalf("there is no attribute %s", name)
		}
	}
	return tftypes.NewValue(object, all)
}

func value(kind tftypes.Type, set any) tftypes.Value {
	switch set := set.(type) {
	case tftypes.Value:
		return set
	case unknownValue:
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	case map[string]string:
		all := map[string]tftypes.Value{}
		for name, text := range set {
			all[name] = tftypes.NewValue(tftypes.String, text)
		}
		return tftypes.NewValue(kind, all)
	}
	return tftypes.NewValue(kind, set)
}

func (c *core) wire(value tftypes.Value) *tfprotov6.DynamicValue {
	c.t.Helper()
	dynamic, err := tfprotov6.NewDynamicValue(value.Type(), value)
	if err != nil {
		c.t.Fatal(err)
	}
	return &dynamic
}

func (c *core) kind(name string) tftypes.Type { return c.schema.ResourceSchemas[name].ValueType() }

// instance is a resource as the state has it.
type instance struct {
	core     *core
	kind     string
	state    tftypes.Value
	private  []byte
	identity *tfprotov6.ResourceIdentityData
}

func (c *core) instance(kind string) *instance {
	return &instance{core: c, kind: kind, state: tftypes.NewValue(c.kind(kind), nil)}
}

func (i *instance) attribute(name string) tftypes.Value {
	i.core.t.Helper()
	return attributeOf(i.core.t, i.state, name)
}

func attributeOf(t testing.TB, object tftypes.Value, name string) tftypes.Value {
	t.Helper()
	all := map[string]tftypes.Value{}
	if err := object.As(&all); err != nil {
		t.Fatal(err)
	}
	return all[name]
}

// text is an attribute that is a string; "" for null.
func (i *instance) text(name string) string {
	i.core.t.Helper()
	var text *string
	if err := i.attribute(name).As(&text); err != nil {
		i.core.t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

type plan struct {
	config, planned tftypes.Value
	private         []byte
	identity        *tfprotov6.ResourceIdentityData
	replaces        []string
	errors          string
	warnings        int
}

// proposed merges a configuration with the state as Terraform does: what is computed and not set stays as it was.
func (i *instance) proposed(config tftypes.Value) tftypes.Value {
	i.core.t.Helper()
	if i.state.IsNull() {
		return config
	}
	set, before := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	if err := config.As(&set); err != nil {
		i.core.t.Fatal(err)
	}
	if err := i.state.As(&before); err != nil {
		i.core.t.Fatal(err)
	}
	set = maps.Clone(set) // it is the configuration's own
	for _, attribute := range i.core.schema.ResourceSchemas[i.kind].Block.Attributes {
		if attribute.Computed && set[attribute.Name].IsNull() {
			set[attribute.Name] = before[attribute.Name]
		}
	}
	return tftypes.NewValue(config.Type(), set)
}

func (i *instance) plan(set values) plan {
	c := i.core
	c.t.Helper()
	made := plan{config: c.object(c.kind(i.kind), set)}
	validated, err := c.server.ValidateResourceConfig(c.t.Context(), &tfprotov6.ValidateResourceConfigRequest{
		TypeName: i.kind, Config: c.wire(made.config), ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if made.errors = errorsOf(validated.Diagnostics); made.errors != "" {
		return made
	}
	answer, err := c.server.PlanResourceChange(c.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: i.kind, PriorState: c.wire(i.state), ProposedNewState: c.wire(i.proposed(made.config)), Config: c.wire(made.config), PriorPrivate: i.private, PriorIdentity: i.identity,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	made.errors, made.warnings = errorsOf(answer.Diagnostics), len(answer.Diagnostics)
	if made.errors != "" {
		return made
	}
	if made.planned, err = answer.PlannedState.Unmarshal(c.kind(i.kind)); err != nil {
		c.t.Fatal(err)
	}
	made.private, made.identity = answer.PlannedPrivate, answer.PlannedIdentity
	for _, at := range answer.RequiresReplace {
		made.replaces = append(made.replaces, at.String())
	}
	return made
}

// changes names the attributes that a plan changes.
func (i *instance) changes(p plan) string {
	i.core.t.Helper()
	var names []string
	for _, attribute := range i.core.schema.ResourceSchemas[i.kind].Block.Attributes {
		if !attributeOf(i.core.t, p.planned, attribute.Name).Equal(i.attribute(attribute.Name)) {
			names = append(names, attribute.Name)
		}
	}
	return strings.Join(names, " ")
}

// apply carries a plan out and keeps the state that comes of it, with an error too.
func (i *instance) apply(ctx context.Context, p plan) string {
	c := i.core
	c.t.Helper()
	if p.errors != "" {
		c.t.Fatalf("plan: %s", p.errors)
	}
	answer, err := c.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: i.kind, PriorState: c.wire(i.state), PlannedState: c.wire(p.planned), Config: c.wire(p.config), PlannedPrivate: p.private, PlannedIdentity: p.identity,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if i.state, err = answer.NewState.Unmarshal(c.kind(i.kind)); err != nil {
		c.t.Fatal(err)
	}
	i.private, i.identity = answer.Private, answer.NewIdentity
	failure := errorsOf(answer.Diagnostics)
	if failure == "" {
		i.wantKept(p)
	}
	return failure
}

// wantKept holds what Terraform asks for: what was planned is what came.
func (i *instance) wantKept(p plan) {
	c := i.core
	c.t.Helper()
	for _, attribute := range c.schema.ResourceSchemas[i.kind].Block.Attributes {
		planned := attributeOf(c.t, p.planned, attribute.Name)
		if !planned.IsNull() && !planned.IsFullyKnown() {
			continue
		}
		if got := i.attribute(attribute.Name); !got.Equal(planned) {
			c.t.Errorf("%s came as %s and was planned as %s", attribute.Name, got, planned)
		}
	}
}

// must plans and applies without an error.
func (i *instance) must(set values) {
	i.core.t.Helper()
	if failure := i.apply(i.core.t.Context(), i.plan(set)); failure != "" {
		i.core.t.Fatal(failure)
	}
}

func (i *instance) destroy() string {
	c := i.core
	c.t.Helper()
	null := tftypes.NewValue(c.kind(i.kind), nil)
	return i.apply(c.t.Context(), plan{config: null, planned: null, private: i.private, identity: i.identity})
}

// read refreshes and returns the errors.
func (i *instance) read() string {
	c := i.core
	c.t.Helper()
	answer, err := c.server.ReadResource(c.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: i.kind, CurrentState: c.wire(i.state), Private: i.private, CurrentIdentity: i.identity})
	if err != nil {
		c.t.Fatal(err)
	}
	if failure := errorsOf(answer.Diagnostics); failure != "" {
		return failure
	}
	if i.state, err = answer.NewState.Unmarshal(c.kind(i.kind)); err != nil {
		c.t.Fatal(err)
	}
	i.private, i.identity = answer.Private, answer.NewIdentity
	return ""
}

// imported is what an import and the refresh after it give.
func (c *core) imported(request *tfprotov6.ImportResourceStateRequest) *instance {
	c.t.Helper()
	answer, err := c.server.ImportResourceState(c.t.Context(), request)
	if err != nil {
		c.t.Fatal(err)
	}
	c.fine("import", answer.Diagnostics)
	i := c.instance(request.TypeName)
	if i.state, err = answer.ImportedResources[0].State.Unmarshal(c.kind(request.TypeName)); err != nil {
		c.t.Fatal(err)
	}
	i.private, i.identity = answer.ImportedResources[0].Private, answer.ImportedResources[0].Identity
	if failure := i.read(); failure != "" {
		c.t.Fatal(failure)
	}
	return i
}

// data reads a data source.
func (c *core) data(kind string, set values) (tftypes.Value, string) {
	c.t.Helper()
	of := c.schema.DataSourceSchemas[kind].ValueType()
	answer, err := c.server.ReadDataSource(c.t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: kind, Config: c.wire(c.object(of, set))})
	if err != nil {
		c.t.Fatal(err)
	}
	if failure := errorsOf(answer.Diagnostics); failure != "" {
		return tftypes.Value{}, failure
	}
	read, err := answer.State.Unmarshal(of)
	if err != nil {
		c.t.Fatal(err)
	}
	return read, ""
}

// codeFolder makes a folder with a handler.
func codeFolder(t testing.TB, text string) string {
	t.Helper()
	folder := t.TempDir()
	writeCode(t, folder, text)
	return folder
}

func writeCode(t testing.TB, folder, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, "handler.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
