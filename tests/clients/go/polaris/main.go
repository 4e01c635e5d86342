// A program on Polaris' SDK for Go: does what each line of stdin asks for, and prints the result as a line of JSON. Changes
// of a watched service and of config files that were read are lines with `event`.
//
//	main NAMING CONFIG NAMESPACE DIRECTORY
//
// NAMING and CONFIG are HOST:PORT; the SDK keeps its cache and its logs in DIRECTORY. THUBAN_TOKEN is its token.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/polarismesh/polaris-go"
	"github.com/polarismesh/polaris-go/api"
	"github.com/polarismesh/polaris-go/pkg/model"
)

const settings = `
global:
  serverConnector:
    addresses: [%[1]s]
    token: "%[3]s"
  statReporter:
    enable: false
consumer:
  localCache:
    persistDir: %[4]s/backup
  circuitBreaker:
    enable: true
config:
  localCache:
    persistDir: %[4]s/config
  configConnector:
    addresses: [%[2]s]
    token: "%[3]s"
`

type line map[string]any

var printing sync.Mutex

func say(it line) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(it); err != nil {
		log.Fatal(err)
	}
}

// The APIs of one SDK.
type sdk struct {
	namespace string
	consumer  polaris.ConsumerAPI
	provider  polaris.ProviderAPI
	router    polaris.RouterAPI
	limit     polaris.LimitAPI
	breaker   polaris.CircuitBreakerAPI
	config    polaris.ConfigAPI
	read      map[string]bool
}

func pairs(words []string) map[string]string {
	found := map[string]string{}
	for _, word := range words {
		if key, value, ok := strings.Cut(word, "="); ok {
			found[key] = value
		}
	}
	return found
}

func hosts(instances []model.Instance) []string {
	found := []string{}
	for _, one := range instances {
		found = append(found, fmt.Sprintf("%s:%d", one.GetHost(), one.GetPort()))
	}
	sort.Strings(found)
	return found
}

func (s *sdk) all(service string) (*model.InstancesResponse, error) {
	request := &polaris.GetAllInstancesRequest{}
	request.Namespace, request.Service = s.namespace, service
	return s.consumer.GetAllInstances(request)
}

// Does what a line asks for.
func (s *sdk) do(words []string) (line, error) {
	act, words := words[0], words[1:]
	switch act {
	case "register": // SERVICE HOST PORT TTL KEY=VALUE…
		port, _ := strconv.Atoi(words[2])
		ttl, _ := strconv.Atoi(words[3])
		request := &polaris.InstanceRegisterRequest{}
		request.Namespace, request.Service, request.Host, request.Port = s.namespace, words[0], words[1], port
		request.Metadata = pairs(words[4:])
		request.SetTTL(ttl)
		answer, err := s.provider.RegisterInstance(request)
		if err != nil {
			return nil, err
		}
		return line{"id": answer.InstanceID}, nil
	case "deregister": // SERVICE HOST PORT
		port, _ := strconv.Atoi(words[2])
		request := &polaris.InstanceDeRegisterRequest{}
		request.Namespace, request.Service, request.Host, request.Port = s.namespace, words[0], words[1], port
		return line{}, s.provider.Deregister(request)
	case "instances": // SERVICE
		answer, err := s.all(words[0])
		if err != nil {
			return nil, err
		}
		return line{"instances": hosts(answer.GetInstances())}, nil
	case "watch": // SERVICE
		request := &polaris.WatchServiceRequest{}
		request.Key = model.ServiceKey{Namespace: s.namespace, Service: words[0]}
		answer, err := s.consumer.WatchService(request)
		if err != nil {
			return nil, err
		}
		go func() {
			for event := range answer.EventChannel {
				if _, ok := event.(*model.InstanceEvent); ok {
					say(line{"event": "instances", "service": words[0]})
				}
			}
		}()
		return line{}, nil
	case "route": // SERVICE CALLER HEADER=VALUE…
		all, err := s.all(words[0])
		if err != nil {
			return nil, err
		}
		request := &polaris.ProcessRoutersRequest{}
		request.DstInstances = all
		request.SourceService.Namespace, request.SourceService.Service = s.namespace, words[1]
		for key, value := range pairs(words[2:]) {
			request.AddArguments(model.BuildHeaderArgument(key, value))
		}
		answer, err := s.router.ProcessRouters(request)
		if err != nil {
			return nil, err
		}
		return line{"instances": hosts(answer.GetInstances())}, nil
	case "quota": // SERVICE METHOD
		request := polaris.NewQuotaRequest()
		request.SetNamespace(s.namespace)
		request.SetService(words[0])
		request.SetMethod(words[1])
		future, err := s.limit.GetQuota(request)
		if err != nil {
			return nil, err
		}
		return line{"passes": future.Get().Code == model.QuotaResultOk}, nil
	case "call": // SERVICE METHOD ok|fails
		return s.call(words[0], words[1], words[2] == "ok")
	case "config": // GROUP FILE
		file, err := s.config.GetConfigFile(s.namespace, words[0], words[1])
		if err != nil {
			return nil, err
		}
		name := words[0] + "/" + words[1]
		if !s.read[name] {
			s.read[name] = true
			file.AddChangeListener(func(event model.ConfigFileChangeEvent) {
				say(line{"event": "config", "file": name, "content": event.NewValue})
			})
		}
		return line{"content": file.GetContent(), "is_there": file.HasContent()}, nil
	case "publish": // GROUP FILE CONTENT
		return line{}, s.publish(words[0], words[1], words[2])
	}
	return nil, fmt.Errorf("no such act: %s", act)
}

// Writes a file and publishes it, in one call where the SDK has that.
func (s *sdk) publish(group, file, content string) error {
	type publisher interface {
		UpsertAndPublishConfigFile(namespace, group, file, content string) error
	}
	if newer, ok := s.config.(publisher); ok {
		return newer.UpsertAndPublishConfigFile(s.namespace, group, file, content)
	}
	if s.config.CreateConfigFile(s.namespace, group, file, content) != nil {
		if err := s.config.UpdateConfigFile(s.namespace, group, file, content); err != nil {
			return err
		}
	}
	return s.config.PublishConfigFile(s.namespace, group, file)
}

// Makes a call that a breaker guards.
func (s *sdk) call(service, method string, succeeds bool) (line, error) {
	callee := &model.ServiceKey{Namespace: s.namespace, Service: service}
	resource, err := model.NewServiceResource(callee, &model.ServiceKey{Namespace: s.namespace, Service: "web"})
	if err != nil {
		return nil, err
	}
	check, err := s.breaker.Check(resource)
	if err != nil {
		return nil, err
	}
	if !check.Pass {
		return line{"passes": false}, nil
	}
	stat := &model.ResourceStat{Resource: resource, RetCode: "200", Delay: time.Millisecond, RetStatus: model.RetSuccess}
	if !succeeds {
		stat.RetCode, stat.RetStatus = "500", model.RetFail
	}
	_ = method
	return line{"passes": true}, s.breaker.Report(stat)
}

func main() {
	directory := os.Args[4]
	file := filepath.Join(directory, "polaris.yaml")
	text := fmt.Sprintf(settings, os.Args[1], os.Args[2], os.Getenv("THUBAN_TOKEN"), directory)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := api.SetLoggersDir(filepath.Join(directory, "logs")); err != nil {
		log.Fatal(err)
	}
	consumer, err := polaris.NewConsumerAPIByFile(file)
	if err != nil {
		log.Fatal(err)
	}
	context := consumer.SDKContext()
	client := &sdk{
		namespace: os.Args[3],
		consumer:  consumer,
		provider:  polaris.NewProviderAPIByContext(context),
		router:    polaris.NewRouterAPIByContext(context),
		limit:     polaris.NewLimitAPIByContext(context),
		breaker:   polaris.NewCircuitBreakerAPIByContext(context),
		config:    polaris.NewConfigAPIByContext(context),
		read:      map[string]bool{},
	}
	say(line{"event": "ready"})
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		words := strings.Fields(asked.Text())
		if len(words) == 0 {
			continue
		}
		answer, err := client.do(words)
		if err != nil {
			var known model.SDKError
			code := ""
			if errors.As(err, &known) {
				code = model.ErrCodeToString(known.ErrorCode())
			}
			answer = line{"error": err.Error(), "code": code}
		}
		answer["asked"] = words[0]
		say(answer)
	}
}
