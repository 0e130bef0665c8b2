package watch

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/naeel/sless/api/v1alpha1"
)

// Clients speak to the Kubernetes API server: one for each API group that the gateway uses, and no more of client-go than that.
type Clients struct {
	sless          rest.Interface
	discovery      rest.Interface
	core           rest.Interface
	authentication rest.Interface
}

// NewClients returns clients; nothing is called yet.
func NewClients(config *rest.Config) (*Clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	client := func(version schema.GroupVersion, contentType string) (rest.Interface, error) {
		config := rest.CopyConfig(config)
		config.APIPath = "/apis"
		if version.Group == "" {
			config.APIPath = "/api"
		}
		config.GroupVersion = &version
		config.NegotiatedSerializer = codecs.WithoutConversion()
		config.ContentType = contentType
		config.QPS = -1 // a handful of watches, and token reviews that are cached
		return rest.RESTClientFor(config)
	}
	clients := &Clients{}
	var err error
	if clients.sless, err = client(v1alpha1.GroupVersion, runtime.ContentTypeJSON); err != nil {
		return nil, fmt.Errorf("client of sless.io: %w", err)
	}
	if clients.discovery, err = client(discoveryv1.SchemeGroupVersion, runtime.ContentTypeProtobuf); err != nil {
		return nil, fmt.Errorf("client of discovery.k8s.io: %w", err)
	}
	if clients.authentication, err = client(authenticationv1.SchemeGroupVersion, runtime.ContentTypeProtobuf); err != nil {
		return nil, fmt.Errorf("client of authentication.k8s.io: %w", err)
	}
	if clients.core, err = client(corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf); err != nil {
		return nil, fmt.Errorf("client of core: %w", err)
	}
	return clients, nil
}

// ReviewToken asks the API server whose token it is and whether it is meant for the audience.
func (c *Clients) ReviewToken(ctx context.Context, token, audience string) (*authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	answer := &authenticationv1.TokenReview{}
	if err := c.authentication.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(answer); err != nil {
		return nil, fmt.Errorf("review token: %w", err)
	}
	return &answer.Status, nil
}
