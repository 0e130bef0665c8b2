// Package mounts finds and detaches what is mounted below a folder.
package mounts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Below lists the mount points below the folders, in the order they were mounted.
func Below(folders ...string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return points(string(data), folders...), nil
}

// Detach unmounts everything below the folders, the innermost first, also what is in use.
func Detach(folders ...string) error {
	all, err := Below(folders...)
	if err != nil {
		return err
	}
	var failures []error
	for _, point := range slices.Backward(all) {
		err := syscall.Unmount(point, syscall.MNT_DETACH)
		// Both say that it is gone meanwhile.
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			failures = append(failures, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(failures...)
}

// points picks the mount points below the folders from the text of a mountinfo file.
func points(mountinfo string, folders ...string) []string {
	const pointField = 4
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) <= pointField {
			continue
		}
		point := unescape.Replace(fields[pointField])
		for _, folder := range folders {
			if strings.HasPrefix(point, folder+"/") {
				found = append(found, point)
			}
		}
	}
	return found
}
