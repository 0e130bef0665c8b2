// Command terraform-provider-sless is the Terraform provider of sless. Terraform starts it; with -debug a debugger can.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"runtime/debug"
	_ "time/tzdata" // time zones are checked on machines that have none

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/naeel/sless/terraform-provider-sless/internal/provider"
)

// version is set when a release is built.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "wait for terraform to connect, and say how")
	flag.Parse()
	quicken()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{Address: provider.Address, Debug: *debug})
	if err != nil {
		log.Fatal(err)
	}
}

// quicken leaves out what takes more than half of the time of a plan. Without TF_LOG, Terraform reads the SDK's trace, some hundred lines for each
// resource, only to throw it away; and a program that ends soon, with a small heap, need not collect garbage often.
func quicken() {
	if os.Getenv("TF_LOG") == "" && os.Getenv("TF_LOG_PROVIDER") == "" {
		for _, name := range []string{"TF_LOG_SDK", "TF_LOG_SDK_FRAMEWORK", "TF_LOG_SDK_PROTO"} {
			if _, set := os.LookupEnv(name); !set {
				os.Setenv(name, "off")
			}
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
