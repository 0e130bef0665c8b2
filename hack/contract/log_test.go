package contract

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// linesOf returns the lines of a log that bear a request's id, without it, apart from those of which there may be any number.
func linesOf(log, id string) []string {
	var found []string
	for line := range strings.Lines(log) {
		text, plain := strings.CutPrefix(line, "["+id+"] ")
		text, json := strings.CutPrefix(text, `{"sless_request_id":"`+id+`",`)
		if (plain || json) && !strings.HasSuffix(text, " waits\n") {
			found = append(found, strings.TrimSuffix(text, "\n"))
		}
	}
	slices.Sort(found)
	return found
}

func TestEachLineHasTheIDOfItsRequest(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		marks, names := newSigns(t), []string{"one", "two", "three", "four"}
		var answers []<-chan answer
		for _, name := range names {
			args := url.Values{"name": {name}, "others": {strings.Join(names, ",")}, "dir": {string(marks)}}
			answers = append(answers, s.later(t, request{do: "say", args: args, header: http.Header{"X-Request-Id": {"id-" + name}}}))
		}
		for _, answer := range answers {
			if a := take(t, answer); a.status != http.StatusNoContent {
				t.Fatalf("status %d %s", a.status, a.body)
			}
		}
		for _, name := range names {
			want := []string{
				name + " here", name + " first", "[forged] " + name + " second", name + " thread", name + " logged", name + " ends without a line end",
				`"sless_request_id":"forged","name":"` + name + `"}`,
			}
			slices.Sort(want)
			eventually(t, fmt.Sprintf("the log has %q of %s", want, name), func() bool {
				got := slices.DeleteFunc(linesOf(s.log(t), "id-"+name), func(line string) bool { return strings.Contains(line, `"json"`) })
				return slices.Equal(got, want)
			})
			if json := linesOf(s.log(t), "id-"+name); !slices.ContainsFunc(json, func(line string) bool {
				return strings.HasPrefix(line, `"name":`) && strings.Contains(line, `"json"`)
			}) {
				t.Errorf("no JSON of %s in %q", name, json)
			}
		}
		if forged := linesOf(s.log(t), "forged"); len(forged) > 0 {
			t.Errorf("lines pass as those of another request: %q", forged)
		}
	})
}

// What calls the pod past the gateway may say anything; an id that could be mistaken for something else is not taken.
func TestRequestIDs(t *testing.T) {
	eachKit(t, nil, func(t *testing.T, s *server) {
		for id, good := range map[string]bool{
			"a": true, "a]": true, strings.Repeat("a", 128): true, "!#[]~": true,
			"": false, strings.Repeat("a", 129): false, "a b": false, `a"b`: false, `a\b`: false, "ü": false, "a] [b": false,
		} {
			got := s.send(t, request{do: "context", header: http.Header{"X-Request-Id": {id}}}).json(t)["request_id"]
			if (got == id) != good || got == "" {
				t.Errorf("X-Request-Id %q became %q", id, got)
			}
		}
	})
}
