package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	endpoint = "pretended-gpus.sock"
	retry    = time.Second
)

// gpus is a device plugin whose GPUs are pretended: the scheduler counts them, and a container that has one is told so.
func gpus(args []string) error {
	flags := flag.NewFlagSet("gpus", flag.ExitOnError)
	count := flags.Int("count", 8, "how many there are")
	_ = flags.Parse(args[1:])
	devices := make([]*plugin.Device, *count)
	for number := range devices {
		devices[number] = &plugin.Device{ID: fmt.Sprintf("gpu-%d", number), Health: plugin.Healthy}
	}
	for { // a kubelet that starts again removes the sockets of all plugins, and expects them to register anew
		if err := serve(&pretended{devices: devices}); err != nil {
			fmt.Fprintln(os.Stderr, "gpus:", err)
		}
		time.Sleep(retry)
	}
}

func serve(devices *pretended) error {
	path := filepath.Join(plugin.DevicePluginPath, endpoint)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, devices)
	defer server.Stop()
	go func() { _ = server.Serve(listener) }()
	kubelet, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	request := &plugin.RegisterRequest{Version: plugin.Version, Endpoint: endpoint, ResourceName: resource}
	if _, err := plugin.NewRegistrationClient(kubelet).Register(context.Background(), request); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(path); err != nil {
			return nil
		}
		time.Sleep(retry)
	}
}

type pretended struct {
	plugin.UnimplementedDevicePluginServer
	devices []*plugin.Device
}

func (p *pretended) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (p *pretended) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *pretended) Allocate(_ context.Context, asked *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		visible := fmt.Sprint(container.DevicesIds)
		answer.ContainerResponses = append(answer.ContainerResponses, &plugin.ContainerAllocateResponse{
			Envs: map[string]string{"PRETENDED_GPUS": visible},
		})
	}
	return answer, nil
}
