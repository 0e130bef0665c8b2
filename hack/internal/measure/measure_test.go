package measure

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	same := func(v float64) float64 { return v }
	for want, of := range map[float64][]float64{0: nil, 3: {3}, 2: {9, 1, 2}, 2.5: {1, 9, 2, 3}} {
		if got := Median(of, same); got != want {
			t.Errorf("median of %v is %v", of, got)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	p, err := Start("busy", "sh", "-c", "(while :; do :; done) & wait")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		used, err := p.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if used > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a child's time does not count")
		}
	}
	if memory, err := p.Memory(); err != nil || memory <= 0 {
		t.Errorf("%d bytes, %v", memory, err)
	}
}
