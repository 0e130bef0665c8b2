package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// BenchmarkUnchanged does what a plan does with one function that has not changed: validate, refresh, plan. The API answers at once.
func BenchmarkUnchanged(b *testing.B) {
	api := newFakeAPI(b)
	function := newCore(b, api.URL, nil).instance("sless_function")
	set := hello(values{"source_dir": codeFolder(b, "one"), "env": map[string]string{"A": "1"}})
	function.must(set)
	b.ReportAllocs()
	for b.Loop() {
		if failure := function.read(); failure != "" {
			b.Fatal(failure)
		}
		if planned := function.plan(set); planned.errors != "" || function.changes(planned) != "" {
			b.Fatal(planned.errors, function.changes(planned))
		}
	}
}

// BenchmarkSchema is what each start of the provider costs, of which a plan has three.
func BenchmarkSchema(b *testing.B) {
	for b.Loop() {
		c := newCore(b, "http://127.0.0.1:1", nil)
		if _, err := c.server.GetProviderSchema(b.Context(), &tfprotov6.GetProviderSchemaRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
