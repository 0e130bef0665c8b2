package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/robfig/cron/v3"
)

// The rules here are the platform's own, so that a mistake shows when planning. What changes with the platform's configuration, such
// as the names of runtimes, is left to it.

const maxEvent = 96 << 10

var (
	functionLabel = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	objectLabel   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	entrypoints   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$`)
	runtimes      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	variables     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	fileNames     = regexp.MustCompile(`^[A-Za-z0-9_.@+-]+(/[A-Za-z0-9_.@+-]+)*$`)
	images        = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$`)
	addresses     = regexp.MustCompile(`^https?://[^/?#\s]+(/[^\s#]*)?$`)
	repositories  = regexp.MustCompile(`^https?://[^/?#\s]+/[^\s?#]+$`)
	gitRefs       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`)
	sha256Hex     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func functionName() validator.String {
	return stringvalidator.RegexMatches(functionLabel, "must be at most 63 lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen, for example resize-image")
}

func objectName() validator.String {
	return stringvalidator.RegexMatches(objectLabel, "must be at most 63 lower-case letters, digits and hyphens, not starting or ending with a hyphen, for example every-night")
}

func namespaceName() validator.String {
	return check("a namespace's name", func(text string) error {
		switch {
		case !objectLabel.MatchString(text):
			return fmt.Errorf("must be at most 63 lower-case letters, digits and hyphens, not starting or ending with a hyphen")
		case strings.HasPrefix(text, "kube-") || strings.HasPrefix(text, "sless-"):
			return fmt.Errorf("must not begin with kube- or sless-: those namespaces are the system's own")
		}
		return nil
	})
}

func webAddress() validator.String {
	return check("an http or https URL", func(text string) error {
		if parsed, err := url.Parse(text); err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return fmt.Errorf("must be an http or https URL, for example https://api.functions.example.org")
		}
		return nil
	})
}

// codeAddress is that of code. It is stored and shown, so that it must have no password.
func codeAddress() validator.String {
	return check("an address of code", func(text string) error {
		parsed, err := url.Parse(text)
		switch {
		case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") || !addresses.MatchString(text) || len(text) > 2048:
			return fmt.Errorf("must be an https or http URL without a fragment, for example https://example.org/hello.zip")
		case parsed.User != nil:
			return fmt.Errorf("must have no user or password in it")
		}
		return nil
	})
}

func repositoryAddress() validator.String {
	return check("a repository's address", func(text string) error {
		parsed, err := url.Parse(text)
		switch {
		case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") || len(text) > 2048:
			return fmt.Errorf("must be an https or http URL, for example https://git.example.org/team/functions.git")
		case parsed.User != nil:
			return fmt.Errorf("must have no user or password in it; secret_name names a Secret with them")
		case !repositories.MatchString(text):
			return fmt.Errorf("must have a path and neither a query nor a fragment, for example https://git.example.org/team/functions.git")
		}
		return nil
	})
}

func gitRef() validator.String {
	return check("a git reference", func(text string) error {
		if !gitRefs.MatchString(text) || len(text) > 255 {
			return fmt.Errorf("must be a branch, a tag, a full reference such as refs/heads/main, or a commit as 40 hex digits")
		}
		return nil
	})
}

func gitFolder() validator.String {
	return check("a folder of the repository", func(text string) error {
		parts := strings.Split(text, "/")
		if text == "" || text[0] == '/' || slices.Contains(parts, ".") || slices.Contains(parts, "..") || len(text) > 512 {
			return fmt.Errorf("must be a path relative to the repository's root without . and .. parts, for example functions/hello")
		}
		return nil
	})
}

func secretName() validator.String {
	return stringvalidator.LengthBetween(1, 253)
}

func sha256Text() validator.String {
	return stringvalidator.RegexMatches(sha256Hex, "must be 64 hexadecimal digits in lower case")
}

func timeZone() validator.String {
	return check("an IANA time zone", func(text string) error {
		if _, err := time.LoadLocation(text); err != nil || text == "Local" || text == "" {
			return fmt.Errorf("must be an IANA time zone, for example Europe/Berlin")
		}
		return nil
	})
}

// fiveFields is the dialect of schedules; the macros are checked apart from it.
var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

var macros = map[string]bool{
	"@hourly": true, "@daily": true, "@midnight": true, "@weekly": true, "@monthly": true, "@yearly": true, "@annually": true,
}

func schedule() validator.String {
	return check("a cron schedule", func(text string) error {
		if macros[text] {
			return nil
		}
		const rule = "must have five fields (minute, hour, day of month, month, day of week), for example */5 * * * *, or be one of @hourly @daily @midnight @weekly @monthly @yearly @annually"
		if len(strings.Fields(text)) != 5 || strings.HasPrefix(text, "@") || strings.Contains(text, "TZ=") || len(text) > 128 {
			return fmt.Errorf("%s", rule)
		}
		if _, err := fiveFields.Parse(text); err != nil {
			return fmt.Errorf("%s; a field is wrong: %w", rule, err)
		}
		return nil
	})
}

func event() validator.String {
	return check("JSON of at most 96 KiB", func(text string) error {
		if len(text) > maxEvent {
			return fmt.Errorf("must not be larger than 96 KiB")
		}
		if !json.Valid([]byte(text)) {
			return fmt.Errorf("must be JSON; jsonencode({…}) makes it")
		}
		return nil
	})
}

func variableName() validator.String {
	return check("a variable's name", func(text string) error {
		switch {
		case !variables.MatchString(text) || len(text) > 253:
			return fmt.Errorf("must be letters, digits and _ . - and not begin with a digit")
		case strings.HasPrefix(text, "SLESS_") || text == "PORT":
			return fmt.Errorf("is one of the platform's own: names starting with SLESS_, and PORT")
		}
		return nil
	})
}

func fileName() validator.String {
	return check("a relative path", func(text string) error {
		for part := range strings.SplitSeq(text, "/") {
			if part == "." || part == ".." {
				return fmt.Errorf("must not have . or .. parts")
			}
		}
		if !fileNames.MatchString(text) || len(text) > 256 {
			return fmt.Errorf("must be a relative path of letters, digits and _ . @ + -, for example lib/util.py")
		}
		return nil
	})
}

// check makes a rule out of a function.
func check(what string, rule func(string) error) validator.String { return textRule{what, rule} }

type textRule struct {
	what string
	rule func(string) error
}

// Description implements validator.Describer.
func (r textRule) Description(context.Context) string { return "must be " + r.what }

// MarkdownDescription implements validator.Describer.
func (r textRule) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

// ValidateString implements validator.String. The value is not in the message: it may be secret.
func (r textRule) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := r.rule(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not "+r.what, fmt.Sprintf("%s %s.", req.Path, err))
	}
}

// thousandths refuses what would come back rounded.
type thousandths struct{}

// Description implements validator.Describer.
func (thousandths) Description(context.Context) string { return "must be a multiple of 0.001" }

// MarkdownDescription implements validator.Describer.
func (r thousandths) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

// ValidateFloat64 implements validator.Float64.
func (thousandths) ValidateFloat64(_ context.Context, req validator.Float64Request, resp *validator.Float64Response) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	milli := req.ConfigValue.ValueFloat64() * 1000
	if math.Abs(milli-math.Round(milli)) > 1e-6 {
		resp.Diagnostics.AddAttributeError(req.Path, "Too fine a number", fmt.Sprintf("%s must be a multiple of 0.001.", req.Path))
	}
}
