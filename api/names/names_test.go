package names

import (
	"strings"
	"testing"
)

func TestNamesStayWithinALabelAndApart(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]string{}
	for _, name := range []string{"a", long, long[:62] + "b", long[:62], long[:61] + "-"} {
		for what, got := range map[string]string{
			"namespace": FunctionNamespace(name),
			"child":     Child(name, "env-0123456789"),
			"host":      strings.TrimSuffix(IngressHost(name, long, "example.org"), ".example.org"),
		} {
			if len(got) > 63 || strings.HasSuffix(got, "-") {
				t.Errorf("%s of %q is %q, %d characters", what, name, got, len(got))
			}
			if other, dup := seen[what+got]; dup {
				t.Errorf("%s of %q and of %q are both %q", what, name, other, got)
			}
			seen[what+got] = name
		}
	}
}

func TestHashTellsPartsApart(t *testing.T) {
	if Hash("a", "bc") == Hash("ab", "c") {
		t.Error("the same hash for different parts")
	}
}

func TestOwnerReadsWhatLabelsWrite(t *testing.T) {
	kind, owner, ok := Owner(Labels("Function", "ns", "f", "u"))
	if kind != "Function" || owner.String() != "ns/f" || !ok {
		t.Errorf("got %s %s %v", kind, owner, ok)
	}
	if _, _, ok := Owner(map[string]string{KindLabel: "Function"}); ok {
		t.Error("an owner without a name")
	}
}

func TestTheIDOfARunHasTheJobs(t *testing.T) {
	const uid = "0d6f4dd4-75c1-4a3c-8d0e-1d6f4dd475c1"
	if id := RunID(uid, 7); id != uid+"-7" || JobUID(id) != uid || JobUID(uid) != uid || JobUID("x-1") != "x-1" || JobUID("") != "" {
		t.Errorf("id %q of %q, %q", id, JobUID(id), JobUID(uid))
	}
}
