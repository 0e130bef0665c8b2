// Package install runs the Jobs that install dependencies and make images: it makes them, watches them, says why they failed and takes
// them away.
package install

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/names"
	"github.com/naeel/sless/operator/internal/config"
)

// Spec is what image a Job makes of what: one with dependencies that its install step finds, or one with the files that it fetches.
type Spec struct {
	// Key stands for everything that decides about the result; it names the Job.
	Key string
	// Namespace is the tenant's.
	Namespace string
	// Base is the image that the result extends, by digest.
	Base string
	// Installer is the image whose install step is run, by digest: Base with the manifests in it, or Base itself when they are in the
	// Parcel. Empty: nothing is installed, and the Parcel is what goes into the image.
	Installer string
	// Parcel is what the Job fetches before all else; nil is nothing.
	Parcel *Parcel
	// Index is the tenant's own settings and credentials for package indexes, which only the install step sees. They are no input of the
	// result, and may be nil.
	Index Index
	// Wanted are files of which the install step must have made one, below the folder that it fills. None: any result will do.
	Wanted []string
	// Destination is the image that is made, by tag.
	Destination string
	// Labels are the image's labels.
	Labels map[string]string
	// TimeoutSeconds is how long the Job may take.
	TimeoutSeconds int32
}

// JobName is the name of the Job of a key, and of everything that belongs to it.
func JobName(key string) string { return "build-" + key }

const (
	componentLabel = "app.kubernetes.io/component"
	component      = "build"
	// uid runs what is the tenant's; nothing in the platform belongs to it.
	uid = 65532
	// reapAfterSeconds removes a Job that ended while no operator was there to see it.
	reapAfterSeconds = 3600
	// graceSeconds is how much longer than its time limit a Job lives, so that its log can still be read.
	graceSeconds = 60

	depsVolume = "deps"
	depsPath   = "/deps"
	caPath     = "/etc/sless-ca"
	caFile     = "ca.crt"
	recipePath = "/kaniko/sless"
	dockerfile = "Dockerfile"
	// pushFile is a key of the Job's Secret: the credentials that only kaniko is given.
	pushFile = "push.json"
)

// The containers of the pod, in their order.
const (
	confineStep = "confine"
	installStep = "install"
	checkStep   = "check"
	kanikoStep  = "kaniko"
)

func labels(spec Spec) map[string]string {
	return map[string]string{names.ManagedByLabel: names.ManagedBy, componentLabel: component, names.NamespaceLabel: spec.Namespace}
}

// buildJob returns the Job, suspended: what its pod mounts belongs to it and is made after it.
func buildJob(spec Spec, cfg config.Config) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: JobName(spec.Key), Namespace: names.BuildNamespace, Labels: labels(spec)},
		Spec: batchv1.JobSpec{
			Suspend:                 new(true),
			BackoffLimit:            new(int32(0)),
			ActiveDeadlineSeconds:   new(int64(spec.TimeoutSeconds) + graceSeconds),
			TTLSecondsAfterFinished: new(int32(reapAfterSeconds)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(spec)},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					AutomountServiceAccountToken:  new(false),
					EnableServiceLinks:            new(false),
					TerminationGracePeriodSeconds: new(int64(1)), // nothing of an installation that is stopped is kept
					ImagePullSecrets:              []corev1.LocalObjectReference{{Name: JobName(spec.Key)}},
					SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					InitContainers:                buildSteps(spec, cfg),
					Containers:                    []corev1.Container{buildKaniko(spec, cfg)},
					Volumes:                       buildVolumes(spec, cfg),
				},
			},
		},
	}
}

// buildSteps returns what comes before kaniko.
func buildSteps(spec Spec, cfg config.Config) []corev1.Container {
	var containers []corev1.Container
	if spec.Parcel != nil {
		containers = append(containers, buildFetch(spec, cfg))
	}
	if spec.Installer != "" {
		containers = append(containers, buildConfine(cfg), buildInstall(spec, cfg), buildCheck(spec, cfg))
	}
	return containers
}

// buildConfine waits until the network policies hold for the pod: before that nothing of the tenant's may run.
func buildConfine(cfg config.Config) corev1.Container {
	return corev1.Container{
		Name:            confineStep,
		Image:           cfg.Build.CheckImage,
		Args:            []string{"confine"},
		SecurityContext: unprivileged(),
		Resources:       buildResources(cfg),
	}
}

// buildInstall runs the tenant's choice of code: it gets the manifests, and no credential but the tenant's own.
func buildInstall(spec Spec, cfg config.Config) corev1.Container {
	container := corev1.Container{
		Name:            installStep,
		Image:           spec.Installer,
		Command:         []string{"/sless/install"},
		Env:             []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}},
		SecurityContext: unprivileged(),
		Resources:       buildResources(cfg),
		VolumeMounts:    []corev1.VolumeMount{{Name: depsVolume, MountPath: depsPath}, {Name: "tmp", MountPath: "/tmp"}},
	}
	if spec.Parcel != nil {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: filesVolume, MountPath: "/" + manifestFolder, SubPath: manifestFolder, ReadOnly: true})
	}
	addEnv := func(name, value string) {
		if value != "" {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	if !spec.Index.ownIndex() {
		addEnv("PIP_INDEX_URL", cfg.Build.PipIndexURL)
	}
	if !spec.Index.ownRegistry() {
		addEnv("NPM_CONFIG_REGISTRY", cfg.Build.NPMRegistry)
	}
	if len(spec.Index) > 0 {
		container.Env = append(container.Env, spec.Index.env()...)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: indexVolume, MountPath: indexPath, ReadOnly: true})
	}
	if cfg.Build.CAConfigMapName != "" {
		for _, name := range []string{"PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
			addEnv(name, caPath+"/"+caFile)
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "ca", MountPath: caPath, ReadOnly: true})
	}
	return container
}

// buildCheck looks at what was installed before root touches it.
func buildCheck(spec Spec, cfg config.Config) corev1.Container {
	return corev1.Container{
		Name:            checkStep,
		Image:           cfg.Build.CheckImage,
		Args:            append([]string{"check", depsPath}, spec.Wanted...),
		SecurityContext: unprivileged(),
		Resources:       buildResources(cfg),
		VolumeMounts:    []corev1.VolumeMount{{Name: depsVolume, MountPath: depsPath}},
	}
}

// buildKaniko copies a volume into an image. It holds the push credentials and runs nothing of the tenant's.
func buildKaniko(spec Spec, cfg config.Config) corev1.Container {
	volume, path := depsVolume, depsPath
	if spec.Installer == "" {
		volume, path = filesVolume, filesPath
	}
	args := []string{
		"--context=dir://" + path,
		"--dockerfile=" + recipePath + "/" + dockerfile,
		"--destination=" + spec.Destination,
		"--compressed-caching=false", // layers on disk, not in memory
		"--push-retry=2",
		"--image-download-retry=2",
		"--log-timestamp=false",
		"--log-format=text",
	}
	if cfg.Registry.Insecure {
		args = append(args, "--insecure", "--insecure-pull")
	}
	if cfg.Registry.CAFile != "" {
		args = append(args, "--registry-certificate="+cfg.Registry.Host+"="+recipePath+"/"+caFile)
	}
	return corev1.Container{
		Name:    kanikoStep,
		Image:   cfg.Build.KanikoImage,
		Command: []string{"/kaniko/executor"},
		Args:    args,
		Env:     []corev1.EnvVar{{Name: "DOCKER_CONFIG", Value: "/kaniko/.docker"}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                new(int64(0)),
			AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"},
				Add:  []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"}, // to unpack the base and copy files
			},
		},
		Resources: buildResources(cfg),
		VolumeMounts: []corev1.VolumeMount{
			{Name: volume, MountPath: path, ReadOnly: true},
			{Name: "recipe", MountPath: recipePath, ReadOnly: true},
			{Name: "push", MountPath: "/kaniko/.docker", ReadOnly: true},
		},
	}
}

func unprivileged() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsNonRoot:             new(true),
		RunAsUser:                new(int64(uid)),
		RunAsGroup:               new(int64(uid)),
		ReadOnlyRootFilesystem:   new(true),
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func buildResources(cfg config.Config) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(cfg.Build.Memory)}
	if cfg.Build.CPU != "" {
		limits[corev1.ResourceCPU] = resource.MustParse(cfg.Build.CPU)
	}
	return corev1.ResourceRequirements{
		Limits:   limits,
		Requests: corev1.ResourceList{corev1.ResourceCPU: atMost("100m", limits.Cpu()), corev1.ResourceMemory: atMost("256Mi", limits.Memory())},
	}
}

// atMost returns the request, or the limit where that is set and smaller.
func atMost(request string, limit *resource.Quantity) resource.Quantity {
	quantity := resource.MustParse(request)
	if !limit.IsZero() && limit.Cmp(quantity) < 0 {
		return *limit
	}
	return quantity
}

func buildVolumes(spec Spec, cfg config.Config) []corev1.Volume {
	size := resource.MustParse(cfg.Build.VolumeSize)
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}
	volumes := []corev1.Volume{
		{Name: "recipe", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: JobName(spec.Key)}}}},
		{Name: "push", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: JobName(spec.Key),
			Items:      []corev1.KeyToPath{{Key: pushFile, Path: "config.json"}},
		}}},
	}
	if spec.Parcel != nil {
		volumes = append(volumes, buildParcelVolume(spec), corev1.Volume{Name: filesVolume, VolumeSource: emptyDir})
	}
	if spec.Installer == "" {
		return volumes
	}
	volumes = append(volumes, corev1.Volume{Name: depsVolume, VolumeSource: emptyDir}, corev1.Volume{Name: "tmp", VolumeSource: emptyDir})
	if len(spec.Index) > 0 {
		volumes = append(volumes, buildIndexVolume(spec))
	}
	if cfg.Build.CAConfigMapName != "" {
		volumes = append(volumes, corev1.Volume{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: cfg.Build.CAConfigMapName},
			Items:                []corev1.KeyToPath{{Key: caFile, Path: caFile}},
		}}})
	}
	return volumes
}

// buildRecipe returns what kaniko reads besides the volume. The ignore file is empty and there so that none from the volume, which is
// the tenant's, is looked for.
func buildRecipe(spec Spec, trust trust) map[string]string {
	folder := "."
	if spec.Installer == "" {
		folder = "function"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "FROM %s\nCOPY --chown=0:0 %s /function/\n", spec.Base, folder)
	for _, key := range sortedKeys(spec.Labels) {
		fmt.Fprintf(&text, "LABEL %q=%q\n", key, spec.Labels[key])
	}
	recipe := map[string]string{dockerfile: text.String(), dockerfile + ".dockerignore": ""}
	if trust.registry != "" {
		recipe[caFile] = trust.registry
	}
	if trust.store != "" && spec.Parcel != nil {
		recipe[storeCAFile] = trust.store
	}
	return recipe
}
