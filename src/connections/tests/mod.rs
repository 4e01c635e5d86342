//! Listeners over TLS and behind proxies, connections of HTTP/2, and connections that are parked.

mod http2;
mod parking;
mod proxy;
mod tls;
