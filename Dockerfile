# syntax=docker/dockerfile:1
#
#   docker buildx build --platform linux/amd64,linux/arm64 --tag relay-operator:0.1.0 .
#   docker build --target localcloud --tag relay-localcloud:0.1.0 .
#
# Nothing is compiled: every dependency is a wheel whose hash is in requirements/, so both platforms build alike.
# A release names its base by digest: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim

FROM ${BASE} AS empty
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ONLY_BINARY=:all: PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements ./requirements
# Without pip inside: what runs cannot install anything.
RUN python -m venv --without-pip /opt/relay

FROM empty AS wheel
# The build backend, from the same lock as everything else.
RUN awk '/^[A-Za-z]/ {kept = /^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==/} kept' requirements/dev.txt > backend.txt \
 && pip install --require-hashes --no-deps --requirement backend.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator ./operator
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheel .

FROM empty AS build
RUN pip --python /opt/relay/bin/python install --require-hashes --requirement requirements/operator.txt
COPY --from=wheel /wheel /wheel
RUN pip --python /opt/relay/bin/python install --no-deps /wheel/*.whl \
 && cd /opt/relay && rm -r lib/python3*/site-packages/relay_localcloud lib/python3*/site-packages/relay_cli \
      bin/relay-localcloud bin/kubectl*

FROM empty AS build-localcloud
RUN pip --python /opt/relay/bin/python install --require-hashes --requirement requirements/localcloud.txt
COPY --from=wheel /wheel /wheel
RUN pip --python /opt/relay/bin/python install --no-deps /wheel/*.whl \
 && cd /opt/relay && rm -r lib/python3*/site-packages/relay_operator lib/python3*/site-packages/relay_cli \
      bin/relay-operator bin/kubectl*

FROM ${BASE} AS base
# Nothing that could install anything, nor in the base's own Python.
RUN rm -r "$(python -c 'import pathlib, pip; print(pathlib.Path(pip.__file__).parent)')" \
 && rm -f /usr/local/bin/pip* /usr/bin/pip*
ENV PATH=/opt/relay/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532

FROM base AS localcloud
COPY --from=build-localcloud /opt/relay /opt/relay
EXPOSE 8400 8401 8402 8403
ENTRYPOINT ["relay-localcloud"]
CMD ["serve", "--host", "0.0.0.0", "--ephemeral"]

FROM base AS operator
COPY --from=build /opt/relay /opt/relay
EXPOSE 8088 9090
ENTRYPOINT ["relay-operator"]
CMD ["run"]
