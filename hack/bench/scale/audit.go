package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// audit is the API server's own record of what the operator has asked it to change.
type audit struct {
	policy, log string
	read        int64 // how much of the log was counted
}

func newAudit(dir string) (*audit, error) {
	a := &audit{policy: filepath.Join(dir, "audit.yaml"), log: filepath.Join(dir, "audit.log")}
	return a, os.WriteFile(a.policy, []byte(fmt.Sprintf(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [%q], verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`, operatorAccount)), 0o600)
}

// event is what of a line matters here.
type event struct {
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// writes counts the requests to change something since the last call, by verb and resource, also those that were refused. Events and
// the lease are left out.
func (a *audit) writes() (map[string]int, error) {
	file, err := os.Open(a.log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, a.read, 1<<40))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be half written
	a.read += int64(len(text))
	return count(text)
}

func count(log []byte) (map[string]int, error) {
	counts := map[string]int{}
	for line := range bytes.Lines(log) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		what := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.Resource != "events" && e.ObjectRef.Resource != "leases" {
			counts[what]++
		}
	}
	return counts, nil
}

func sum(counts map[string]int) (all int) {
	for _, n := range counts {
		all += n
	}
	return all
}
