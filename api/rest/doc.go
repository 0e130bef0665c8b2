// Package rest is the REST API of sless as Go: the JSON types of its requests and answers, and a client.
//
// In a type with a part marked readOnly, the server writes that part and ignores it in a request, so that what a GET answered
// can be changed and sent back. In a PUT an absent field is cleared, apart from Labels, SecretEnv, Replicas and RestartedAt,
// which are then left as they are. JSON null means absent; in a PATCH it clears.
package rest
