package mounts

import (
	"slices"
	"testing"
)

func TestPointsBelowTheFoldersAlone(t *testing.T) {
	const mountinfo = `27 1 254:0 / / rw - ext4 /dev/vda rw
40 27 0:40 / /repo/.dev/kubelet/pods/a/volumes/token rw - tmpfs tmpfs rw
41 27 0:41 / /repo/.development rw - tmpfs tmpfs rw
42 27 0:42 / /run/sless-cluster/containerd/rootfs rw - overlay overlay rw
43 27 0:43 / /repo/.dev/with\040space rw - tmpfs tmpfs rw
short line
`
	got := points(mountinfo, "/repo/.dev", "/run/sless-cluster")
	want := []string{"/repo/.dev/kubelet/pods/a/volumes/token", "/run/sless-cluster/containerd/rootfs", "/repo/.dev/with space"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
