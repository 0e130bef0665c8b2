package main

import (
	"fmt"
	"html"
	"strings"
)

// chart draws the medians as bars, with a line from the least to the most, on a ground of its own so that any page may show it.
func chart(rows []row) string {
	const (
		width, labels, right = 860, 350, 70
		height, gap, top     = 26, 12, 46
	)
	longest := 0.0
	for _, row := range rows {
		longest = max(longest, row.Most)
	}
	x := func(seconds float64) float64 { return labels + seconds/longest*(width-labels-right) }
	var out strings.Builder
	total := top + len(rows)*(height+gap) + gap
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">`+"\n", width, total)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, total)
	fmt.Fprintf(&out, `<text x="16" y="28" font-weight="bold">Seconds from the API call to the new bytes served (median, least to most)</text>`+"\n")
	for i, row := range rows {
		y, middle := float64(top+i*(height+gap)), float64(top+i*(height+gap))+height/2
		fill := "#2f6fb5"
		switch row.What {
		case kanikoCode, kanikoDeps:
			fill = "#b0b7c0"
		case plainImage, otherImage:
			fill = "#6aa84f"
		}
		fmt.Fprintf(&out, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", labels-10, middle+5, html.EscapeString(row.What))
		fmt.Fprintf(&out, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", labels, y, x(row.Median)-labels, height, fill)
		fmt.Fprintf(&out, `<path d="M%.1f %.1fH%.1f" stroke="#222222" stroke-width="1.5"/>`+"\n", x(row.Least), middle, x(row.Most))
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f">%.2f s</text>`+"\n", x(max(row.Most, row.Median))+8, middle+5, row.Median)
	}
	out.WriteString("</svg>\n")
	return out.String()
}
