// A workload of these tests: it serves the files of its volume, says where it runs, and exits if it is told to.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

const volume = "/workspace"

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
	http.HandleFunc("GET /{$}", func(answer http.ResponseWriter, _ *http.Request) {
		host, _ := os.Hostname()
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
	http.HandleFunc("POST /exit/{code}", func(_ http.ResponseWriter, asked *http.Request) {
		code, _ := strconv.Atoi(asked.PathValue("code"))
		fmt.Println("told to exit with", code)
		os.Exit(code)
	})
	fmt.Println("serving")
	panic(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
