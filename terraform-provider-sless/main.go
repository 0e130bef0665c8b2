// Command terraform-provider-sless is the Terraform provider of sless. Terraform starts it; with -debug a debugger can.
package main

import (
	"context"
	"flag"
	"log"
	_ "time/tzdata" // time zones are checked on machines that have none

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/naeel/sless/terraform-provider-sless/internal/provider"
)

// version is set when a release is built.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "wait for terraform to connect, and say how")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{Address: provider.Address, Debug: *debug})
	if err != nil {
		log.Fatal(err)
	}
}
