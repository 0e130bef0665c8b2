// Package contract holds runtimes/CONTRACT.md: it starts each runtime from its sources as a local process, as its image
// would, and looks at it from outside only. Every case runs against every runtime.
package contract
