#!/bin/bash
# image.sh NODE-ROOT PROJECT WORK TARGET NAME BASE: builds one target of the Dockerfile to WORK/out/TARGET.tar.
# Run it in its own mount namespace; it uses the buildah of NODE-ROOT.
set -eu
LOWER=$1 PROJECT=$2 WORK=$3 TARGET=$4 NAME=$5 BASE=$6 ROOT=$3/root
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work" "$ROOT"
mkdir -p "$ROOT"/{src,out,build,var/lib/containers}; touch "$ROOT/etc/resolv.conf"
mount -t proc proc "$ROOT/proc"; mount --rbind /sys "$ROOT/sys"; mount --rbind /dev "$ROOT/dev"; mount -t tmpfs tmpfs "$ROOT/run"
mount --bind -o ro "$PROJECT" "$ROOT/src"; mount --bind "$WORK/out" "$ROOT/out"; mount --bind -o ro "$WORK" "$ROOT/build"
mount --bind "$WORK/containers" "$ROOT/var/lib/containers"
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt
for file in /etc/resolv.conf $CERTIFICATES; do mount --bind "$file" "$ROOT$file"; done
export TMPDIR=/var/lib/containers STORAGE_DRIVER=overlay BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker
cd "$ROOT"
exec chroot "$ROOT" bash -eu -c "
  buildah inspect --type image $BASE > /dev/null 2>&1 || buildah pull --quiet docker-archive:/out/python.tar
  buildah bud --quiet --pull-never --layers --network host --target $TARGET --tag $NAME \
    --volume $CERTIFICATES:$CERTIFICATES:ro --volume /build/pip.conf:/etc/pip.conf:ro /src
  rm -f /out/$TARGET.tar
  buildah push --quiet localhost/$NAME docker-archive:/out/$TARGET.tar:$NAME"
