// One binary with every part of a Kubernetes node and its control plane, and etcd.
//
// It is the part that its first argument names, or the name that it is called by.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(new func() *cobra.Command) func([]string) error {
	return func([]string) error { os.Exit(cli.Run(new())); return nil }
}

var parts = map[string]func([]string) error{
	"etcd":                    func(args []string) error { etcdmain.Main(args); return nil },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(kcm.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(proxy.NewProxyCommand),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 command(kubectl.NewDefaultKubectlCommand),
	"dns":                     dns,
	"gpus":                    gpus,
}

func main() {
	name := filepath.Base(os.Args[0])
	if parts[name] == nil && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run := parts[name]
	if run == nil {
		names := make([]string, 0, len(parts))
		for known := range parts {
			names = append(names, known)
		}
		slices.Sort(names)
		fmt.Fprintln(os.Stderr, "usage: node "+strings.Join(names, "|"))
		os.Exit(2)
	}
	if err := run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
