// A gRPC client without a proxy, and a server that is told by xDS how to listen: main [server ADDRESS]
//
// GRPC_XDS_BOOTSTRAP names the file that says where the rules are. It is driven by lines of JSON, as
// tests/clients/xds/grpc_client.py is:
//
//	{"op": "call", "target": T, "times": 20, "parallel": 1, "method": "/shop.Pay/Charge", "metadata": {"k": "v"}, "timeout_s": 5}
//	{"op": "flow", "name": N, "target": T, "pause_s": 0.005, …}, {"op": "seen", "name": N}, {"op": "stop", "name": N}
//	{"op": "forget", "target": T}     closes the channel
//
// With "ca", a file, a call goes by TLS; with "by_xds", true, by what xDS says of it, and otherwise by TLS. Messages are empty, answers are the bytes that a server names itself by.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscredentials "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

// Codec of bytes as they are.
type raw struct{}

func (raw) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (raw) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

// One line that is asked.
type question struct {
	Op, Name, Target, Method, CA string
	Times, Parallel              int
	Metadata                     map[string]string
	ByXDS                        bool    `json:"by_xds"`
	TimeoutS                     float64 `json:"timeout_s"`
	PauseS                       float64 `json:"pause_s"`
}

// Results of calls: how many each server answered, and how many failed how.
type tally struct {
	mutex           sync.Mutex
	Answers, Errors map[string]int
	Texts           map[string]string
}

func newTally() *tally {
	return &tally{Answers: map[string]int{}, Errors: map[string]int{}, Texts: map[string]string{}}
}

func (t *tally) told() any {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	copied := newTally()
	for key, count := range t.Answers {
		copied.Answers[key] = count
	}
	for key, count := range t.Errors {
		copied.Errors[key], copied.Texts[key] = count, t.Texts[key]
	}
	return map[string]any{"answers": copied.Answers, "errors": copied.Errors, "texts": copied.Texts}
}

type flow struct {
	ends  chan struct{}
	done  sync.WaitGroup
	tally *tally
}

type client struct {
	mutex    sync.Mutex
	channels map[string]*grpc.ClientConn
	flows    map[string]*flow
}

func (c *client) channel(asked *question) (*grpc.ClientConn, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found := c.channels[asked.Target]; found != nil {
		return found, nil
	}
	secure := insecure.NewCredentials()
	if asked.CA != "" {
		read, err := credentials.NewClientTLSFromFile(asked.CA, "")
		if err != nil {
			return nil, err
		}
		secure = read
	}
	if asked.ByXDS {
		made, err := xdscredentials.NewClientCredentials(xdscredentials.ClientOptions{FallbackCreds: secure})
		if err != nil {
			return nil, err
		}
		secure = made
	}
	made, err := grpc.Dial(asked.Target, grpc.WithTransportCredentials(secure))
	if err == nil {
		c.channels[asked.Target] = made
	}
	return made, err
}

func (c *client) once(into *tally, asked *question) {
	channel, err := c.channel(asked)
	var answer []byte
	if err == nil {
		limit := asked.TimeoutS
		if limit == 0 {
			limit = 5
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limit*float64(time.Second)))
		defer cancel()
		ctx = metadata.NewOutgoingContext(ctx, metadata.New(asked.Metadata))
		method := asked.Method
		if method == "" {
			method = "/shop.Pay/Charge"
		}
		err = channel.Invoke(ctx, method, &[]byte{}, &answer, grpc.ForceCodec(raw{}))
	}
	into.mutex.Lock()
	defer into.mutex.Unlock()
	if err == nil {
		into.Answers[string(answer)]++
		return
	}
	name := codeName(status.Code(err))
	into.Errors[name]++
	into.Texts[name] = err.Error()
}

// The name as gRPC's other languages write it: DEADLINE_EXCEEDED.
func codeName(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	var name strings.Builder
	for at, letter := range code.String() {
		if at > 0 && unicode.IsUpper(letter) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(letter))
	}
	return name.String()
}

// Runs so many at once; each ends when the work says so.
func together(count int, work func() bool) *sync.WaitGroup {
	var running sync.WaitGroup
	for range max(count, 1) {
		running.Add(1)
		go func() {
			defer running.Done()
			for work() {
			}
		}()
	}
	return &running
}

func (c *client) call(asked *question) any {
	results, left := newTally(), make(chan struct{}, max(asked.Times, 1))
	for range max(asked.Times, 1) {
		left <- struct{}{}
	}
	close(left)
	together(asked.Parallel, func() bool {
		_, more := <-left
		if more {
			c.once(results, asked)
		}
		return more
	}).Wait()
	return results.told()
}

func (c *client) start(asked *question) any {
	started := &flow{ends: make(chan struct{}), tally: newTally()}
	if asked.PauseS == 0 {
		asked.PauseS = 0.005
	}
	pause := time.Duration(asked.PauseS * float64(time.Second))
	for range max(asked.Parallel, 1) {
		started.done.Add(1)
		go func() {
			defer started.done.Done()
			for {
				select {
				case <-started.ends:
					return
				case <-time.After(pause):
					c.once(started.tally, asked)
				}
			}
		}()
	}
	c.flows[asked.Name] = started
	return map[string]any{}
}

func (c *client) stop(asked *question) any {
	stopped := c.flows[asked.Name]
	delete(c.flows, asked.Name)
	close(stopped.ends)
	stopped.done.Wait()
	return stopped.tally.told()
}

func (c *client) answer(asked *question) (any, error) {
	switch asked.Op {
	case "call":
		return c.call(asked), nil
	case "flow":
		return c.start(asked), nil
	case "seen":
		return c.flows[asked.Name].tally.told(), nil
	case "stop":
		return c.stop(asked), nil
	case "forget":
		c.mutex.Lock()
		defer c.mutex.Unlock()
		closed := c.channels[asked.Target]
		delete(c.channels, asked.Target)
		return map[string]any{}, closed.Close()
	}
	return nil, fmt.Errorf("no operation %q", asked.Op)
}

func say(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// Answers every method with its address, once xDS has said how to listen.
func serve(address string) error {
	handler := func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		answer := []byte(address)
		return stream.SendMsg(&answer)
	}
	changed := func(_ net.Addr, mode xds.ServingModeChangeArgs) {
		line := map[string]any{"mode": mode.Mode.String()}
		if mode.Err != nil {
			line["fault"] = mode.Err.Error()
		}
		say(line)
	}
	server, err := xds.NewGRPCServer(xds.ServingModeCallback(changed), grpc.ForceServerCodec(raw{}),
		grpc.UnknownServiceHandler(handler))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		server.Stop()
	}()
	return server.Serve(listener)
}

func main() {
	say(map[string]any{"ready": true, "version": grpc.Version})
	if len(os.Args) == 3 && os.Args[1] == "server" {
		if err := serve(os.Args[2]); err != nil {
			say(map[string]any{"failed": err.Error()})
			os.Exit(1)
		}
		return
	}
	driven := &client{channels: map[string]*grpc.ClientConn{}, flows: map[string]*flow{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		asked := &question{}
		var answer any
		err := json.Unmarshal(lines.Bytes(), asked)
		if err == nil {
			answer, err = driven.answer(asked)
		}
		if err != nil {
			answer = map[string]any{"failed": err.Error()}
		}
		say(answer)
	}
}
