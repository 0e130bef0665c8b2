package main

import (
	"bytes"
	"fmt"
)

// draw draws the processor time of a request as bars, a group for each proxy and in it a bar for each number of routes.
func (r *report) draw() []byte {
	const width, left, top, barHeight, gap = 720, 150, 40, 14, 10
	most := 0.0
	for _, name := range r.names {
		for _, routes := range r.options.routes {
			most = max(most, r.cpu(name, routes))
		}
	}
	group := barHeight*len(r.options.routes) + gap
	height := top + group*len(r.names) + 30
	shades := []string{"#1f5fa8", "#5b8fc9", "#a9c6e6"}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14">CPU-µs a request, 1 KiB, %d connections</text>`+"\n", r.options.connections)
	for i, name := range r.names {
		y := top + i*group
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-8, y+group/2, name)
		for j, routes := range r.options.routes {
			cpu := r.cpu(name, routes)
			long := cpu / most * (width - left - 130)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+j*barHeight, long, barHeight-2, shades[j%len(shades)])
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" font-size="11">%.0f (%d routes)</text>`+"\n", left+long+5, y+j*barHeight+barHeight-4, cpu, routes)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
