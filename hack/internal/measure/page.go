package measure

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Mark is the line that begins the place of a benchmark's tables in a page. The place ends with a line of the page's own.
func Mark(benchmark string) string { return "<!-- what " + benchmark + " measured -->\n" }

const ends = "<!-- end -->\n"

// PutIntoPage replaces what a page has between a benchmark's marks, and puts the plot beside it, under the name of the benchmark's folder. It
// fails when the page has no marks.
func PutIntoPage(page, benchmark, tables string, plot []byte) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begins := Mark(benchmark)
	before, rest, found := strings.Cut(string(text), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the tables: a line %q and a line %q after it", page, strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	if err := os.WriteFile(page, []byte(before+begins+tables+ends+after), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(page), path.Base(benchmark)+".svg"), plot, 0o644)
}

// Load returns the machine's load average of the last minute and of the last five, as Linux gives it.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:2], ", ")
}

// Machine says what kind of machine this is.
func Machine() string {
	model := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "model name"); found {
			model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
			break
		}
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), model)
}

// Median returns the median of a value of each.
func Median[T any](of []T, value func(T) float64) float64 {
	if len(of) == 0 {
		return 0
	}
	values := make([]float64, len(of))
	for i, each := range of {
		values[i] = value(each)
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}
