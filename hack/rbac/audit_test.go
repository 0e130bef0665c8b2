package rbac

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const accountPrefix = "system:serviceaccount:sless-system:"

// request is what the tests need of a line in the API server's audit log.
type request struct {
	RequestReceivedTimestamp time.Time
	User                     struct{ Username string }
	Verb, RequestURI         string
	ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus           struct {
		Code    int
		Message string
	}
	Annotations map[string]string
}

func (r *request) account() string { return strings.TrimPrefix(r.User.Username, accountPrefix) }

func (r *request) resource() string {
	if r.ObjectRef.Subresource == "" {
		return r.ObjectRef.Resource
	}
	return r.ObjectRef.Resource + "/" + r.ObjectRef.Subresource
}

// forbidden says that the account lacks the right.
func (r *request) forbidden() bool { return r.Annotations["authorization.k8s.io/decision"] == "forbid" }

// verbs are the rights that the request needed. An apply that makes an object needs two, and where a server has no watch that begins with
// what is there, its client lists before it watches.
func (r *request) verbs() []string {
	switch {
	case r.Verb == "patch" && r.ResponseStatus.Code == http.StatusCreated:
		return []string{"patch", "create"}
	case r.Verb == "watch" && strings.Contains(r.RequestURI, "sendInitialEvents=true"):
		return []string{"watch", "list"}
	}
	return []string{r.Verb}
}

// readLog gives every request for an object in the audit log, older files included, to see.
func readLog(pattern string, see func(*request)) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no audit log %s: the cluster of make up writes it", pattern))
	}
	for _, file := range files {
		if err := readFile(file, see); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	return nil
}

func readFile(path string, see func(*request)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what follows the last newline is being written
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if strings.HasPrefix(r.User.Username, accountPrefix) && r.ObjectRef.Resource != "" {
			see(&r)
		}
	}
}
