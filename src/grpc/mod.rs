//! The door of gRPC: every service of the product on every address of `--grpc-addr`. It translates to and from
//! [`crate::xds`] and decides nothing.
