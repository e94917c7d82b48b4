# Everturn as an image. How to build it, run it, reach it and upgrade it: docs/docker.md
#
# Another base works too if it has glibc, such as the distroless `cc` image: --build-arg BASE=IMAGE. It has to be as new as the
# system that RUST builds on. Nothing is run in it while it is built; only the health check needs bash.
ARG RUST=rust:1.95-slim-bookworm
ARG BASE=debian:bookworm-slim
ARG NODE=node:22-bookworm-slim

FROM ${NODE} AS node

FROM ${RUST} AS build
# The build script of the web page runs npm.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ENV BUILD_PAGE=require
WORKDIR /src
COPY . .
# The caches make the next build on the same machine faster. They are not part of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --package everturn-cli \
    && mkdir -p /image/data \
    && cp target/dist/everturn /image/everturn

FROM ${BASE}
# Providers are asked over TLS, and the slim image has no certificates of authorities.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /image/everturn /usr/local/bin/everturn
COPY --from=build --chown=10001:10001 /image/data /data
# Not root, and the same number as in docs/deploy/kubernetes.yaml.
USER 10001:10001
# The server makes the directory below /data itself, with mode 0700, which a mounted volume does not have.
ENV EVERTURN_DATA=/data/everturn EVERTURN_LOG=info EVERTURN_LOG_FORMAT=json
VOLUME /data
EXPOSE 4140
# Asks /readyz where commands find the server: on loopback, without TLS. Kubernetes ignores this and has probes of its own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["bash", "-c", "port=$(sed 's/.*://' \"$EVERTURN_DATA/address\") && exec 3<>\"/dev/tcp/127.0.0.1/$port\" && printf 'GET /readyz HTTP/1.0\\r\\nHost: localhost:%s\\r\\n\\r\\n' \"$port\" >&3 && read -r _ status _ <&3 && test \"$status\" = 200 || exit 1"]
ENTRYPOINT ["/usr/local/bin/everturn"]
CMD ["serve"]
