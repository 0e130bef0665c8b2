package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/gateway/internal/proxy"
	"github.com/naeel/sless/ledger"
)

// options are the command line.
type options struct {
	publicAddress, internalAddress, adminAddress string
	configFile, kubeconfig                       string
	tlsAddress, tlsCertFile, tlsKeyFile          string
	domain                                       string
	trustedProxies                               prefixes
	callers                                      string
	maxBodyBytes                                 int64
	maxHeaderBytes                               int
	maxWaiting, maxWaitingTotal                  int
	headerTimeout, bodyTimeout, idleTimeout      time.Duration
	waitTimeout                                  time.Duration
	drainDelay, drainTimeout                     time.Duration
	accessLog                                    string
	serverTiming                                 bool
	ledgerDSNFile, ledgerCaller                  string
}

const defaultCallers = "system:serviceaccount:sless-system:operator,system:serviceaccount:sless-system:apiserver"

// parse reads and checks the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.StringVar(&o.publicAddress, "public-address", ":8080", "address of the public listener without TLS; empty: none")
	f.StringVar(&o.internalAddress, "internal-address", ":8082", "address of the listener for operator and apiserver")
	f.StringVar(&o.adminAddress, "admin-address", ":9090", "address of the listener for health, metrics and profiles")
	f.StringVar(&o.configFile, "config", "", "the platform's configuration file, whose domain holds when -domain is not given; empty: none")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's own account")
	f.StringVar(&o.tlsAddress, "tls-address", ":8443", "address of the public listener with TLS, which needs a certificate")
	f.StringVar(&o.tlsCertFile, "tls-cert-file", "", "PEM file with its certificate and the chain, read again when it changes; empty: no listener with TLS")
	f.StringVar(&o.tlsKeyFile, "tls-key-file", "", "PEM file with the certificate's key")
	f.StringVar(&o.domain, "domain", "", "domain under which every function has a host of its own; empty: only paths")
	f.Var(&o.trustedProxies, "trusted-proxies", "address ranges, separated by commas, of proxies whose X-Forwarded-* and X-Request-Id are believed")
	f.StringVar(&o.callers, "callers", defaultCallers, "users, separated by commas, that may use the internal listener")
	f.Int64Var(&o.maxBodyBytes, "max-body-bytes", 32<<20, "largest request body")
	f.IntVar(&o.maxHeaderBytes, "max-header-bytes", 128<<10, "largest request head")
	f.IntVar(&o.maxWaiting, "max-waiting", 1000, "how many requests of one function may wait for a free pod")
	f.IntVar(&o.maxWaitingTotal, "max-waiting-total", 10_000, "how many requests of all functions together may wait for a free pod")
	f.DurationVar(&o.headerTimeout, "header-timeout", 10*time.Second, "how long a caller may take to send the head of a request")
	f.DurationVar(&o.bodyTimeout, "body-timeout", time.Minute, "how long a caller may send nothing of a body that it owes")
	f.DurationVar(&o.idleTimeout, "idle-timeout", 3*time.Minute, "how long a caller's connection may be without a request; longer than a proxy in front keeps it")
	f.DurationVar(&o.waitTimeout, "wait-timeout", 10*time.Second, "how long a request may wait for a free pod")
	f.DurationVar(&o.drainDelay, "drain-delay", 5*time.Second, "how long to go on serving after SIGTERM, until nobody sends requests here any more")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 80*time.Second, "how long requests may then take to end")
	f.StringVar(&o.accessLog, "access-log", string(proxy.LogAll), "requests that get a log line: all, errors or off")
	f.BoolVar(&o.serverTiming, "server-timing", false, "put a header Server-Timing on answers, which says where the time went")
	f.StringVar(&o.ledgerDSNFile, "ledger-dsn-file", "/etc/sless-ledger/dsn", "file with the connection string of a PostgreSQL that gets a record of every request; without the file there are no records")
	f.StringVar(&o.ledgerCaller, "ledger-caller", string(ledger.CallerNetwork), "what a record keeps of the caller's address: full, network or none")
	f.SetOutput(io.Discard)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(os.Stdout)
		f.Usage()
		return nil, err
	case err != nil:
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err := o.readConfig(); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", o.configFile, err)
	}
	return o, o.check()
}

// readConfig reads what the gateway needs of the file that the three programs share. The operator refuses what is unknown in it.
func (o *options) readConfig() error {
	if o.configFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.configFile)
	if err != nil {
		return err
	}
	var config struct {
		Domain string `json:"domain"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	if o.domain == "" {
		o.domain = config.Domain
	}
	return nil
}

func (o *options) check() error {
	switch proxy.LogRequests(o.accessLog) {
	case proxy.LogAll, proxy.LogErrors, proxy.LogNone:
	default:
		return fmt.Errorf("-access-log is %q: must be all, errors or off", o.accessLog)
	}
	if o.domain != "" && len(validation.IsDNS1123Subdomain(strings.ToLower(strings.Trim(o.domain, ".")))) > 0 {
		return fmt.Errorf("domain is %q: must be a domain such as functions.example.org", o.domain)
	}
	if !ledger.CallerPolicy(o.ledgerCaller).Valid() {
		return fmt.Errorf("-ledger-caller is %q: must be full, network or none", o.ledgerCaller)
	}
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		return fmt.Errorf("-tls-cert-file and -tls-key-file go together")
	}
	if o.publicAddress == "" && o.tlsCertFile == "" {
		return fmt.Errorf("-public-address is empty and there is no -tls-cert-file: nobody could call a function")
	}
	if o.maxBodyBytes <= 0 || o.maxHeaderBytes <= 0 || o.maxWaiting < 0 || o.maxWaitingTotal < 0 {
		return fmt.Errorf("-max-body-bytes and -max-header-bytes must be greater than 0, -max-waiting and -max-waiting-total at least 0")
	}
	for name, d := range map[string]time.Duration{
		"header-timeout": o.headerTimeout, "body-timeout": o.bodyTimeout, "idle-timeout": o.idleTimeout, "wait-timeout": o.waitTimeout, "drain-timeout": o.drainTimeout,
	} {
		if d <= 0 {
			return fmt.Errorf("-%s must be greater than 0", name)
		}
	}
	return nil
}

// prefixes is a flag of address ranges.
type prefixes []netip.Prefix

// String writes the flag's value.
func (p *prefixes) String() string {
	texts := make([]string, len(*p))
	for i, prefix := range *p {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

// Set reads the flag's value.
func (p *prefixes) Set(value string) error {
	*p = nil
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%q is no address range such as 10.0.0.0/8", text)
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}
