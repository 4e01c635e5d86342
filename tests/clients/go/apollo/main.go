// agollo, Apollo's client for Go, against one address; prints what it holds, a line of JSON for each state.
//
//	main URL APP CLUSTER NAMESPACE CACHE [SECRET]
//
// As tests/clients/watch.py: the secret is that of an access key. THUBAN_LABEL is the label of the client. It has no setting
// for an authority: Go reads SSL_CERT_FILE. go.mod and 4.mod say which version stands behind the import.
package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"

	"thuban.test/agollo"
)

// logger writes what the client says from warnings up.
type logger struct{}

func (logger) Debugf(string, ...interface{})        {}
func (logger) Infof(string, ...interface{})         {}
func (logger) Warnf(text string, v ...interface{})  { log.Printf(text, v...) }
func (logger) Errorf(text string, v ...interface{}) { log.Printf(text, v...) }
func (logger) Debug(...interface{})                 {}
func (logger) Info(...interface{})                  {}
func (logger) Warn(v ...interface{})                { log.Print(v...) }
func (logger) Error(v ...interface{})               { log.Print(v...) }

func main() {
	arguments := append(os.Args[1:6:6], "")
	if len(os.Args) > 6 {
		arguments[5] = os.Args[6]
	}
	var one sync.Mutex
	tell := func(values map[string]any) {
		one.Lock()
		defer one.Unlock()
		line, err := json.Marshal(map[string]any{"values": values})
		if err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(append(line, '\n'))
	}
	url, app, cluster, namespace, cache, secret := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]
	err := agollo.Watch(url, app, cluster, namespace, cache, secret, os.Getenv("THUBAN_LABEL"), logger{}, tell)
	if err != nil {
		log.Fatal(err)
	}
	select {}
}
