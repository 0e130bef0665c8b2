package measure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Sizes is a flag: numbers of something, rising, with commas between them.
type Sizes []int

// String implements flag.Value.
func (s *Sizes) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(*s), "[]"), " ", ",")
}

// Set implements flag.Value.
func (s *Sizes) Set(text string) error {
	var sizes Sizes
	for number := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return errors.New("it must be numbers above 0, rising, with commas between them, such as 100,1000")
		}
		sizes = append(sizes, n)
	}
	*s = sizes
	return nil
}
