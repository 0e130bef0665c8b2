package install

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/operator/internal/config"
)

// Parcel is files of a source, as a tar.gz in the platform's object store.
type Parcel struct {
	// Object is the object's key.
	Object string
	// SHA256 is its digest in hex.
	SHA256 string
}

// Signer makes addresses of objects.
type Signer interface {
	// SignParcel returns an address at which anybody may read the object, and nothing else, for a while.
	SignParcel(ctx context.Context, object string, valid time.Duration) (string, error)
}

const (
	fetchStep = "fetch"

	filesVolume  = "files"
	filesPath    = "/files"
	parcelVolume = "parcel"
	parcelPath   = "/etc/sless-parcel"
	// addressFile is a key of the Job's Secret: the parcel's address, with a signature that opens that one object for a while.
	addressFile = "address"
	storeCAFile = "store-ca.crt"

	// manifestFolder is where a parcel for an install step has the manifests, and where that step looks for them.
	manifestFolder = "manifests"
)

// buildFetch brings the parcel into the volume. Its address is all that it may read, and no other container sees it.
func buildFetch(spec Spec, cfg config.Config) corev1.Container {
	args := []string{"fetch", parcelPath + "/" + addressFile, spec.Parcel.SHA256, filesPath}
	if cfg.ObjectStore.CAFile != "" {
		args = append(args, recipePath+"/"+storeCAFile)
	}
	return corev1.Container{
		Name:            fetchStep,
		Image:           cfg.Build.CheckImage,
		Args:            args,
		SecurityContext: unprivileged(),
		Resources:       buildResources(cfg),
		VolumeMounts: []corev1.VolumeMount{
			{Name: filesVolume, MountPath: filesPath},
			{Name: parcelVolume, MountPath: parcelPath, ReadOnly: true},
			{Name: "recipe", MountPath: recipePath, ReadOnly: true},
		},
	}
}

func buildParcelVolume(spec Spec) corev1.Volume {
	return corev1.Volume{Name: parcelVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: JobName(spec.Key),
		Items:      []corev1.KeyToPath{{Key: addressFile, Path: addressFile}},
	}}}
}
