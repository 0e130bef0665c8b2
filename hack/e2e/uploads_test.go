package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestUploadsOnTheRealObjectStore sends large archives by REST, good and bad ones, and looks what the bucket has of them.
func TestUploadsOnTheRealObjectStore(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	token := programToken(t, namespace, "sless-deployer")
	waitForRights(t, namespace, token)
	store, bucket := objectStore(t)
	folder := tenantFolder(t, namespace)
	noise := make([]byte, 12<<20)
	_, _ = rand.Read(noise) // it never fails
	good := archive(t, entry{name: "noise.bin", text: string(noise)})
	objects := func() (keys []string) {
		for found := range store.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Prefix: folder, Recursive: true}) {
			keys = append(keys, found.Key)
		}
		for found := range store.ListIncompleteUploads(t.Context(), bucket, folder, true) {
			if found.Err == nil {
				keys = append(keys, "incomplete "+found.Key)
			}
		}
		return keys
	}
	send := func(body io.Reader, header ...string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, apiserver()+"/v1/namespaces/"+namespace+"/sources", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/zip")
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return response.StatusCode, nil
	}
	otherDigest := []string{"Content-Digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"}
	for about, attempt := range map[string]func() (int, error){
		"cut":          func() (int, error) { return send(bytes.NewReader(good[:len(good)-10])) },
		"no archive":   func() (int, error) { return send(bytes.NewReader(noise)) },
		"wrong digest": func() (int, error) { return send(bytes.NewReader(good), otherDigest...) },
		"breaks off":   func() (int, error) { return send(io.MultiReader(bytes.NewReader(good[:8<<20]), failing{})) },
	} {
		if status, err := attempt(); err == nil && status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", about, status)
		}
		eventually(t, "nothing is left of an upload that was bad: "+about, func() error {
			if left := objects(); len(left) > 0 {
				return errors.New(left[0] + " is there")
			}
			return nil
		})
	}
	client := restClient(t, token)
	first, err := client.Upload(t.Context(), namespace, bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	// A body that can't be sent twice is lost with its connection, when that is to an apiserver that goes.
	eventually(t, "it is taken again, of unknown length", func() error {
		if status, err := send(io.MultiReader(bytes.NewReader(good))); status != http.StatusCreated {
			return fmt.Errorf("%d %v", status, err)
		}
		return nil
	})
	eventually(t, "one object is left", func() error {
		if left := objects(); len(left) != 1 || left[0] != folder+first.Key {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// failing is a body that ends before it should.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broke off") }

// TestKubernetesRolesIncludeThoseOfREST asks what people may do who may view, edit or administer a namespace.
func TestKubernetesRolesIncludeThoseOfREST(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	reviews := kubernetes.NewForConfigOrDie(kubeConfig).AuthorizationV1().SubjectAccessReviews()
	for _, role := range []string{"view", "edit", "admin", "sless-viewer", "sless-deployer", "sless-invoker"} {
		bind := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "e2e-" + role}},
		}
		if err := kube.Create(t.Context(), bind); err != nil {
			t.Fatal(err)
		}
	}
	for _, right := range []struct {
		verb, resource, subresource string
		roles                       map[string]bool
	}{
		{"get", "functions", "logs", map[string]bool{"view": true, "edit": true, "admin": true, "sless-viewer": true, "sless-deployer": true}},
		{"get", "functions", "code", map[string]bool{"view": true, "edit": true, "admin": true, "sless-viewer": true, "sless-deployer": true}},
		{"create", "functions", "", map[string]bool{"edit": true, "admin": true, "sless-deployer": true}},
		{"update", "functions", "code", map[string]bool{"edit": true, "admin": true, "sless-deployer": true}},
		{"create", "sources", "", map[string]bool{"edit": true, "admin": true, "sless-deployer": true}},
		{"create", "functions", "invoke", map[string]bool{"edit": true, "admin": true, "sless-invoker": true}},
	} {
		for _, role := range []string{"view", "edit", "admin", "sless-viewer", "sless-deployer", "sless-invoker"} {
			eventually(t, role+" may "+right.verb+" "+right.resource+"/"+right.subresource, func() error {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "e2e-" + role, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: right.verb, Group: "sless.io", Resource: right.resource, Subresource: right.subresource,
				}}}
				answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
				if err == nil && answer.Status.Allowed != right.roles[role] {
					err = errors.New("it is not as it should be")
				}
				return err
			})
		}
	}
}
