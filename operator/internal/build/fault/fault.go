// Package fault is the error with which every step of a build ends that does not end well: what the loop should do, and what a
// person should.
package fault

import (
	"errors"
	"fmt"
)

// Error is why a build does not succeed.
type Error struct {
	// Reason is one of the reasons of api/v1alpha1.
	Reason string
	// Message names the thing, the rule and the remedy. It has no secret.
	Message string
	// Terminal says that only a change by somebody can help, so that the next attempt may wait; false says that the cause is
	// expected to pass by itself.
	Terminal bool
	// LogTail is the end of the log of the step that failed, at most 8 KiB, without secrets.
	LogTail string
}

// Error implements error.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Terminal returns an error that only a change by somebody can mend.
func Terminal(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Terminal: true}
}

// Transient returns an error whose cause is expected to pass by itself.
func Transient(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// As returns the *Error in err's chain, or a transient one with the given reason and err's text.
func As(err error, reason string) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return Transient(reason, "%v", err)
}
