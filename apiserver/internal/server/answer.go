package server

import (
	"encoding/json"
	"net/http"

	"github.com/naeel/sless/apiserver/internal/problem"
	"github.com/naeel/sless/apiserver/internal/request"
)

// WriteProblem answers an error outside of huma.
func WriteProblem(w http.ResponseWriter, info *request.Info, err error) {
	p, known := problem.From(err)
	if !known {
		info.Log.Error("request failed", "error", err)
	}
	answer := p.Problem
	answer.RequestID = info.ID
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(answer.Status)
	_ = json.NewEncoder(w).Encode(answer) // the caller is gone if this fails
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
