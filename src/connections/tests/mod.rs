//! Listeners over TLS, and connections that are parked.

mod parking;
mod tls;
