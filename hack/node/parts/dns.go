package main

import (
	"context"
	"flag"
	"net"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/listers/core/v1"
	discovery "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	suffix     = ".svc.cluster.local."
	ttlSeconds = 5
)

// dns answers A queries for <service>.<namespace>.svc.cluster.local, and nothing else: a node without a way out needs
// no more.
func dns(args []string) error {
	flags := flag.NewFlagSet("dns", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of whoever may list Services and EndpointSlices")
	listen := flags.String("listen", "127.0.0.1:53", "UDP address")
	_ = flags.Parse(args[1:])
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	known := zone{factory.Core().V1().Services().Lister(), factory.Discovery().V1().EndpointSlices().Lister()}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	socket, err := net.ListenPacket("udp", *listen)
	if err != nil {
		return err
	}
	buffer := make([]byte, 1500)
	for {
		length, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:length]) != nil || len(query.Questions) != 1 {
			continue
		}
		if packed, err := known.answer(query).Pack(); err == nil {
			_, _ = socket.WriteTo(packed, from)
		}
	}
}

// zone is what the cluster has names for.
type zone struct {
	services core.ServiceLister
	slices   discovery.EndpointSliceLister
}

func (z zone) answer(query dnsmessage.Message) *dnsmessage.Message {
	question := query.Questions[0]
	answer := &dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: query.ID, Response: true, Authoritative: true,
			RecursionDesired: query.RecursionDesired, RecursionAvailable: true,
		},
		Questions: query.Questions,
	}
	addresses, found := z.lookup(strings.ToLower(question.Name.String()))
	if !found {
		answer.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		if v4 := net.ParseIP(address).To4(); v4 != nil && question.Type == dnsmessage.TypeA {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{
					Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: ttlSeconds,
				},
				Body: &dnsmessage.AResource{A: [4]byte(v4)},
			})
		}
	}
	return answer
}

// lookup tells a Service's address, or those of its ready endpoints where it has none of its own.
func (z zone) lookup(name string) ([]string, bool) {
	words := strings.Split(strings.TrimSuffix(name, suffix), ".")
	if !strings.HasSuffix(name, suffix) || len(words) < 2 {
		return nil, false
	}
	service, err := z.services.Services(words[len(words)-1]).Get(words[len(words)-2])
	if err != nil {
		return nil, false
	}
	if net.ParseIP(service.Spec.ClusterIP) != nil {
		return []string{service.Spec.ClusterIP}, true
	}
	selector := labels.SelectorFromSet(labels.Set{"kubernetes.io/service-name": service.Name})
	slices, _ := z.slices.EndpointSlices(service.Namespace).List(selector)
	var ready []string
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready = append(ready, endpoint.Addresses[0])
			}
		}
	}
	return ready, true
}
