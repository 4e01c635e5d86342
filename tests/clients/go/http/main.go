// Asks one URL by Go's own library of HTTP, which asks for gzip by itself, and prints the answer as a line of JSON.
//
//	main URL [BODY]
//
// A body is sent by POST, with the token of THUBAN_TOKEN. With THUBAN_PLAIN=1 the library does not ask for gzip.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DisableCompression: os.Getenv("THUBAN_PLAIN") != ""},
	}
	method, content := http.MethodGet, ""
	if len(os.Args) > 2 {
		method, content = http.MethodPost, os.Args[2]
	}
	request, err := http.NewRequest(method, os.Args[1], strings.NewReader(content))
	if err != nil {
		log.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", os.Getenv("THUBAN_TOKEN"))
	}
	answer, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	line := map[string]any{"status": answer.StatusCode, "unpacked": answer.Uncompressed, "body": string(body)}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		log.Fatal(err)
	}
}
