package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestAs(t *testing.T) {
	known := Terminal("SourceInvalid", "entry %q", "x")
	if got := As(fmt.Errorf("attempt: %w", known), "BuildFailed"); got != known {
		t.Errorf("got %v", got)
	}
	got := As(errors.New("disk full"), "BuildFailed")
	if got.Reason != "BuildFailed" || got.Message != "disk full" || got.Terminal {
		t.Errorf("got %+v", got)
	}
	if text := known.Error(); text != `SourceInvalid: entry "x"` {
		t.Errorf("got %q", text)
	}
}
