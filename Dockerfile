# The image of one node.
#
# Needs nothing but this directory and the internet. Where containers reach no registry,
# scripts/ci/image-context puts build/ beside the sources, with the crates, RocksDB and jemalloc, and the settings
# of cargo that name them; without it crates are downloaded, and the two libraries are compiled by scripts/native/make
# (minutes), in a layer of their own. A binary that was built elsewhere for this release of Debian, or an older one,
# is taken as it is: build/thuban.

FROM rust:1.99-bookworm AS build
WORKDIR /thuban
# The pattern makes the directory optional: a COPY may match nothing if another source exists.
COPY Cargo.toml Cargo.lock askama.toml build.rs buil[d] ./
COPY proto proto
# A pattern would put all manifests into one folder.
COPY crates/base/Cargo.toml crates/base/
COPY crates/book/Cargo.toml crates/book/
COPY crates/catalog/Cargo.toml crates/catalog/
COPY crates/ctl/Cargo.toml crates/ctl/
COPY crates/documents/Cargo.toml crates/documents/
COPY crates/model/Cargo.toml crates/model/
COPY crates/oidc/Cargo.toml crates/oidc/
COPY crates/outbound/Cargo.toml crates/outbound/
COPY crates/polaris/Cargo.toml crates/polaris/
COPY crates/tasks/Cargo.toml crates/tasks/
COPY crates/validate/Cargo.toml crates/validate/
COPY scripts/lib.sh scripts/native.sh scripts/
COPY scripts/native scripts/native
# Bench and test targets name files that are not here, so they leave the manifest. On another processor than x86-64
# cargo compiles RocksDB by itself, with bindings that libclang makes.
RUN [ -x thuban ] || { \
        sed -i '/^\[\[/,/^$/d' Cargo.toml && \
        mkdir src && echo 'fn main() {}' >src/main.rs && : >src/lib.rs && \
        for crate in crates/*; do mkdir "$crate/src" && : >"$crate/src/lib.rs"; done && \
        if [ "$(uname -m)" != x86_64 ]; then \
            apt-get update && apt-get install -y --no-install-recommends clang libclang-dev && \
            rm -rf /var/lib/apt/lists/*; \
        elif [ ! -d native ]; then \
            THUBAN_CACHE=/thuban/cache scripts/native/make && \
            mkdir -p .cargo && cat cache/native-*/native.toml >>.cargo/config.toml; \
        fi; \
    }
# The dependencies are a layer of their own, which a change of the sources does not repeat.
RUN [ -x thuban ] || cargo build --release --locked
COPY crates crates
# The console serves it.
COPY docs docs
COPY src src
# The copied files are older than the stand-ins above; cargo goes by the time.
RUN if [ -x thuban ]; then \
        install -D thuban target/release/thuban; \
    else \
        touch src/main.rs src/lib.rs crates/*/src/lib.rs && cargo build --release --locked; \
    fi

FROM debian:bookworm-slim
# Volumes take the owner of these directories when they are first mounted.
RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /var/lib/thuban \
        --shell /usr/sbin/nologin thuban && \
    install -d -o thuban -g thuban -m 0750 /var/lib/thuban /run/thuban /run/thuban-authority \
        /run/thuban-balancer && \
    install -d -o thuban -g thuban -m 0755 /run/thuban-trust
COPY --from=build /thuban/target/release/thuban /usr/local/bin/thuban
ENV THUBAN_DATA_DIR=/var/lib/thuban
USER thuban
WORKDIR /var/lib/thuban
VOLUME /var/lib/thuban
# Management API, config clients, other nodes, gRPC twice. The first starts with --tls-cert and --tls-key, or with
# --insecure-http; THUBAN_ENDPOINT (and THUBAN_CA_FILE) tell the health check which.
EXPOSE 8090 8890 8190 8091 8093 15010
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["thuban", "health"]
ENTRYPOINT ["thuban"]
CMD ["serve"]
