module gpurelay.dev/workload

go 1.26.0
