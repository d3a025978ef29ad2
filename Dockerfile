# The build needs no C compiler (SQLite and the TLS stack are Go), so one machine builds for every platform.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src

# Modules first: this layer is built again only when a dependency changes. go.mod replaces a module by the folder
# internal/repo/nocgo, without which nothing can be downloaded.
COPY go.mod go.sum ./
COPY internal/repo/nocgo internal/repo/nocgo
RUN go mod download

COPY cmd cmd
COPY internal internal
COPY migrations migrations
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=
RUN --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -tags=nomsgpack -ldflags="-s -w -X seckill/internal/app.release=$VERSION" -o /out/seckill ./cmd/seckill

# Alpine instead of a distroless image: the health check needs a client, and busybox brings one.
FROM alpine:3.23.5 AS runtime
RUN addgroup -g 65532 seckill \
    && adduser -D -H -u 65532 -G seckill -s /sbin/nologin seckill \
    && install -d -m 0700 -o seckill -g seckill /var/lib/seckill

# A number, so that an orchestrator can see that it is not root.
USER 65532:65532
ENV SECKILL_ADDR=:8080 \
    SECKILL_DATA_DIR=/var/lib/seckill
# Only the embedded default keeps anything here: its database and its signing secret.
VOLUME /var/lib/seckill
EXPOSE 8080

# /healthz and not /readyz: a container must not be restarted because a database is down.
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s --retries=3 \
    CMD wget -q -T 2 -O /dev/null http://127.0.0.1:8080/healthz || exit 1
ENTRYPOINT ["seckill"]
CMD ["serve"]

# The image of a release: goreleaser supplies the binaries.
FROM runtime AS release
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/seckill /usr/local/bin/seckill

# The image of `docker build` and compose.
FROM runtime
COPY --from=build /out/seckill /usr/local/bin/seckill
