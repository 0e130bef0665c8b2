package problem

import "net/http"

// The problems that are the same every time.
var (
	ErrNoRoute = &Problem{Status: http.StatusNotFound, Code: NoRoute, Title: "No such function",
		Detail: "No function is reachable at this address. A function needs an enabled http Trigger to be reachable from outside."}
	ErrNoFunction = &Problem{Status: http.StatusNotFound, Code: NoRoute, Title: "No such function",
		Detail: "There is no function of this name."}
	ErrDisabled = &Problem{Status: http.StatusNotFound, Code: Disabled, Title: "Function disabled",
		Detail: "Every Trigger that would lead here is disabled."}
	ErrScaledToZero = &Problem{Status: http.StatusServiceUnavailable, Code: ScaledToZero, Title: "Function scaled to zero",
		Detail: "The function has 0 replicas. It answers again when it is given some.", RetryAfter: 30}
	ErrNoEndpoint = &Problem{Status: http.StatusServiceUnavailable, Code: NoEndpoint, Title: "Function not ready",
		Detail: "No replica of the function could take the request in time.", RetryAfter: 2}
	ErrOverLimit = &Problem{Status: http.StatusTooManyRequests, Code: OverLimit, Title: "Too many requests",
		Detail: "Every replica of the function runs as many calls as its concurrency allows.", RetryAfter: 1}
	ErrGatewayBusy = &Problem{Status: http.StatusServiceUnavailable, Code: GatewayBusy, Title: "Gateway busy",
		Detail: "Too many requests wait at this gateway already.", RetryAfter: 1}
	ErrBodyTooLarge = &Problem{Status: http.StatusRequestEntityTooLarge, Code: BodyTooLarge, Title: "Request body too large",
		Detail: "The request's body is larger than this gateway lets through."}
	ErrBodyTimeout = &Problem{Status: http.StatusRequestTimeout, Code: BodyTimeout, Title: "Request body too slow",
		Detail: "The request's body did not arrive in time."}
	ErrBodyBroken = &Problem{Status: http.StatusBadRequest, Code: BadRequest, Title: "Bad request",
		Detail: "The request's body could not be read to its end."}
	ErrBadUpgrade = &Problem{Status: http.StatusBadRequest, Code: BadRequest, Title: "Bad request",
		Detail: "The request asks for a protocol whose name is not valid."}
	ErrFunctionTimeout = &Problem{Status: http.StatusGatewayTimeout, Code: FunctionTimeout, Title: "Function timed out",
		Detail: "The function did not begin to answer within its timeoutSeconds."}
	ErrFunctionFailed = &Problem{Status: http.StatusBadGateway, Code: FunctionFailed, Title: "Function failed",
		Detail: "The replica that ran the function ended, or broke the connection, before it answered."}
	ErrUnauthorized = &Problem{Status: http.StatusUnauthorized, Code: Unauthorized, Title: "Unauthorized",
		Detail: "This listener needs a service-account token of its own audience, of an account that may call it."}
	ErrAuthUnavailable = &Problem{Status: http.StatusServiceUnavailable, Code: AuthUnavailable, Title: "Authentication unavailable",
		Detail: "The Kubernetes API server could not be asked about the token.", RetryAfter: 1}
)

// NotAllowed returns the refusal of a method; allow lists the methods that would be let through.
func NotAllowed(allow string) *Problem {
	return &Problem{Status: http.StatusMethodNotAllowed, Code: MethodNotAllowed, Title: "Method not allowed",
		Detail: "The Trigger of this function does not let this method through.", Allow: allow}
}
