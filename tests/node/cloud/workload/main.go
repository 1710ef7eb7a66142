// A workload of these tests: it serves the files of its volume, says where it runs, answers as an engine of a model, and
// is sick or exits if it is told to.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const volume = "/workspace"

const completion = `{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
  "message": {"role": "assistant", "content": "from %s"}}], "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}}`

func main() {
	if code, err := strconv.Atoi(os.Getenv("EXIT")); err == nil {
		fmt.Println("exiting with", code)
		os.Exit(code)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() { // the first process of a container has no default action
		<-ended
		os.Exit(0)
	}()
	host, _ := os.Hostname()
	http.HandleFunc("GET /{$}", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(answer, "%s %s", host, os.Getenv("PRETENDED_GPUS"))
	})
	http.HandleFunc("PUT /files/{name}", func(answer http.ResponseWriter, asked *http.Request) {
		content, err := io.ReadAll(asked.Body)
		if err == nil {
			err = os.WriteFile(filepath.Join(volume, asked.PathValue("name")), content, 0o600)
		}
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
		}
	})
	http.Handle("GET /files/", http.StripPrefix("/files/", http.FileServer(http.Dir(volume))))
	var sickUntil atomic.Int64
	http.HandleFunc("GET /health", func(answer http.ResponseWriter, _ *http.Request) {
		if time.Now().Unix() < sickUntil.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("POST /sick/{seconds}", func(answer http.ResponseWriter, asked *http.Request) {
		seconds, _ := strconv.ParseInt(asked.PathValue("seconds"), 10, 64)
		sickUntil.Store(time.Now().Unix() + seconds)
		fmt.Fprint(answer, host)
	})
	http.HandleFunc("POST /v1/chat/completions", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(answer, completion, host)
	})
	http.HandleFunc("POST /exit/{code}", func(_ http.ResponseWriter, asked *http.Request) {
		code, _ := strconv.Atoi(asked.PathValue("code"))
		fmt.Println("told to exit with", code)
		os.Exit(code)
	})
	fmt.Println("serving")
	panic(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
