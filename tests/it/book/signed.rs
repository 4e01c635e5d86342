//! Blocks about signed packages, which no test of the book runs.

const SIGNED: &str = "needs packages and a key; scripts/package-smoke does it with its own, in .ci/run";

/// Blocks with their reasons, as in [`super::NOT_RUN`].
pub(super) const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "docs/packages.md",
        "gpg --quick-generate-key \"Thuban packages <packages@example.com>\" ed25519 sign 2y     # once\n\
         scripts/sign packages@example.com",
        SIGNED,
    ),
    (
        "docs/packages.md",
        "gpg --import thuban.asc\n\
         gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check --ignore-missing SHA256SUMS",
        SIGNED,
    ),
    (
        "docs/packages.md",
        "install -m 644 thuban.asc /etc/apt/keyrings/thuban.asc\n\
         echo \"deb [signed-by=/etc/apt/keyrings/thuban.asc] https://packages.example.com/apt stable main\" \\\n  \
         >/etc/apt/sources.list.d/thuban.list\n\
         apt-get update && apt-get install thuban",
        SIGNED,
    ),
    (
        "docs/packages.md",
        "docker load --input thuban-0.2.0-x86_64-linux.image.tar       # podman load, ctr images import\n\
         docker run --rm thuban:0.2.0 --version\n\
         THUBAN_IMAGE=thuban:0.2.0 docker-compose up --no-build --detach",
        SIGNED,
    ),
];
