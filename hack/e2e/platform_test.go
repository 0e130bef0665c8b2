package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/naeel/sless/api/names"
)

// platform is what the tests need of the operator's configuration.
type platform struct {
	Registry struct {
		Host, Repository string
		Insecure         bool
	}
	Domain      string
	ObjectStore struct{ Endpoint, Region, Bucket string }
	Runtimes    []struct{ Name, Image string }
}

func readPlatform(t *testing.T) platform {
	t.Helper()
	object := &corev1.ConfigMap{}
	if err := get(t, names.SystemNamespace, "sless-config", object); err != nil {
		t.Fatal(err)
	}
	var p platform
	if err := yaml.Unmarshal([]byte(object.Data["config.yaml"]), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	object := &corev1.Secret{}
	if err := get(t, names.SystemNamespace, name, object); err != nil {
		t.Fatal(err)
	}
	return object.Data
}

// clusterTransport reaches Services by their names inside the cluster, from outside of it: {service}.{namespace}.svc…
func clusterTransport() *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if parts := strings.SplitN(host, ".", 3); len(parts) == 3 && strings.HasPrefix(parts[2], "svc") {
			service := &corev1.Service{}
			if err := kube.Get(ctx, clientKey(parts[1], parts[0]), service); err != nil {
				return nil, err
			}
			address = net.JoinHostPort(service.Spec.ClusterIP, port)
		}
		return dial(ctx, network, address)
	}
	return base
}

// upload puts an object into a tenant's own folder of the platform's bucket.
func upload(t *testing.T, namespace, key string, content []byte) {
	t.Helper()
	store, bucket := objectStore(t)
	if _, err := store.PutObject(t.Context(), bucket, tenantFolder(t, namespace)+key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tenantFolder begins the names of a tenant's objects in the platform's bucket.
func tenantFolder(t *testing.T, namespace string) string {
	t.Helper()
	tenant := &corev1.Namespace{}
	if err := get(t, "", namespace, tenant); err != nil {
		t.Fatal(err)
	}
	return "tenants/" + string(tenant.UID) + "/"
}

// objectStore returns a client of the platform's object store, and the bucket.
func objectStore(t *testing.T) (*minio.Client, string) {
	t.Helper()
	p, keys := readPlatform(t), secret(t, "object-store")
	endpoint, err := url.Parse(p.ObjectStore.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	store, err := minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(strings.TrimSpace(string(keys["accessKeyID"])), strings.TrimSpace(string(keys["secretAccessKey"])), ""),
		Secure: endpoint.Scheme == "https", Region: p.ObjectStore.Region, Transport: clusterTransport(), BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, p.ObjectStore.Bucket
}

// tagsOf lists the tags of a tenant's repository; a repository that never was has none.
func tagsOf(t *testing.T, namespace string) []string {
	t.Helper()
	p, repository := readPlatform(t), tenantRepository(t, namespace)
	tags, err := remote.List(repository, remote.WithContext(t.Context()), remote.WithTransport(clusterTransport()), remote.WithAuth(registryLogin(t, "registry-pull", p.Registry.Host)))
	if refused := (*transport.Error)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return tags
}

// tenantRepository is where a tenant's images are.
func tenantRepository(t *testing.T, namespace string) name.Repository {
	t.Helper()
	p := readPlatform(t)
	template := p.Registry.Repository
	if template == "" {
		template = "sless-{namespace}"
	}
	repository, err := name.NewRepository(p.Registry.Host+"/"+strings.ReplaceAll(template, "{namespace}", namespace), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return repository
}

// changedImage pushes a copy of an image with another configuration, to be deleted at the end, and returns it by digest.
func changedImage(t *testing.T, image string, to name.Repository, change func(*v1.Config)) string {
	t.Helper()
	p := readPlatform(t)
	options := []remote.Option{remote.WithTransport(clusterTransport()), remote.WithAuth(registryLogin(t, "registry-push", p.Registry.Host))}
	base, err := remote.Image(must(name.NewDigest(image, name.Insecure)), options...)
	if err != nil {
		t.Fatal(err)
	}
	config := must(base.ConfigFile()).DeepCopy()
	change(&config.Config)
	changed := must(mutate.ConfigFile(base, config))
	target := to.Digest(must(changed.Digest()).String())
	if err := remote.Write(target, changed, options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Delete(target, options...) }) // what a registry keeps for ever does no harm
	return target.String()
}

// registryLogin is the account in one of the platform's Secrets.
func registryLogin(t *testing.T, secretName, host string) authn.Authenticator {
	t.Helper()
	var file struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := yaml.Unmarshal(secret(t, secretName)[".dockerconfigjson"], &file); err != nil {
		t.Fatal(err)
	}
	return authn.FromConfig(file.Auths[host])
}
