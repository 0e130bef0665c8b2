package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(name, version string) *v1alpha1.Function {
			function := &v1alpha1.Function{}
			function.Name, function.ResourceVersion = name, version
			return function
		}
		var written Written
		if written.Behind(at("a", "1")) {
			t.Error("behind, and nothing was written")
		}
		written.Note(at("a", "100"))
		for _, test := range []struct {
			name, version string
			want          bool
		}{
			{"b", "1", false}, {"a", "99", true}, {"a", "99", true}, {"a", "100", false}, {"a", "99", false},
		} {
			if got := written.Behind(at(test.name, test.version)); got != test.want {
				t.Errorf("%s at %s: %v", test.name, test.version, got)
			}
		}
		written.Note(at("a", "200"))
		written.Forget(client.ObjectKeyFromObject(at("a", "")))
		if written.Behind(at("a", "1")) {
			t.Error("behind what is forgotten")
		}
		written.Note(at("a", "200"))
		time.Sleep(behindFor)
		if written.Behind(at("a", "1")) {
			t.Error("behind for ever")
		}
	})
}
